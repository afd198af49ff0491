// Threads that wait for each other at a monitor, at a ReentrantLock and at a ReentrantReadWriteLock. They measure their own
// waits: a line has a name, how often a thread waited, and for how many ns.
//
//   javac -g Monitors.java
//   record=settings=none
//   for event in JavaMonitorEnter ThreadPark; do
//     record=$record,+jdk.$event#enabled=true,+jdk.$event#threshold=0ns,+jdk.$event#stackTrace=true
//   done
//   java -XX:StartFlightRecording:filename=java-monitors.jfr,$record,+jdk.ActiveSetting#enabled=true Monitors
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

public class Monitors {
    static final int TURNS = 40;
    static final Object table = new Object();
    static final ReentrantLock journal = new ReentrantLock();
    static final ReentrantReadWriteLock index = new ReentrantReadWriteLock();
    static final AtomicLong lookups = new AtomicLong(), looked = new AtomicLong();
    static final AtomicLong notes = new AtomicLong(), noted = new AtomicLong();
    static final AtomicLong reads = new AtomicLong(), read = new AtomicLong();
    static volatile boolean ended;

    static void sleep(int us) {
        try {
            Thread.sleep(us / 1000, us % 1000 * 1000);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void count(AtomicLong count, AtomicLong ns, long since) {
        long waited = System.nanoTime() - since;
        if (waited > 200_000) { // less was no wait for who holds it for 4 ms
            count.incrementAndGet();
            ns.addAndGet(waited);
        }
    }

    static void slowRebalance() {
        synchronized (table) {
            sleep(4000);
        }
        sleep(1000);
    }

    static void quickLookup() {
        long since = System.nanoTime();
        synchronized (table) {
            count(lookups, looked, since);
        }
        sleep(300);
    }

    static void hold(Lock lock) {
        lock.lock();
        try {
            sleep(4000);
        } finally {
            lock.unlock();
        }
        sleep(1000);
    }

    static void note() {
        long since = System.nanoTime();
        journal.lock();
        count(notes, noted, since);
        journal.unlock();
        sleep(300);
    }

    static void look() {
        long since = System.nanoTime();
        index.readLock().lock();
        count(reads, read, since);
        index.readLock().unlock();
        sleep(300);
    }

    static Thread holder(String name, Runnable turn) {
        return new Thread(() -> {
            for (int i = 0; i < TURNS; ++i) turn.run();
            ended = true;
        }, name);
    }

    static void between(Thread holder, Runnable waiter) throws InterruptedException {
        ended = false;
        Thread waits = new Thread(() -> { while (!ended) waiter.run(); }, "waiter");
        holder.start();
        waits.start();
        holder.join();
        waits.join();
    }

    public static void main(String[] arguments) throws InterruptedException {
        between(holder("rebalancer", Monitors::slowRebalance), Monitors::quickLookup);
        between(holder("journal", () -> hold(journal)), Monitors::note);
        between(holder("writer", () -> hold(index.writeLock())), Monitors::look);
        System.out.println("quickLookup " + lookups + " " + looked);
        System.out.println("note " + notes + " " + noted);
        System.out.println("look " + reads + " " + read);
    }
}
