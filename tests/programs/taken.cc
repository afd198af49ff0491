// Locks that no call initialises, in every place where C++ has them: which one a thread takes first differs from run to run. Prints of
// each its name, its address and whether it is the C library's or another one: the bytes of it where the preload library says so.

#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <thread>
#include <vector>

#ifdef __aarch64__
enum { MUTEX_TAG = 18, RWLOCK_TAG = 52 };
#else
enum { MUTEX_TAG = 22, RWLOCK_TAG = 52 };
#endif

static void show(const char *name, const void *lock, int tag) {
    uint16_t value;
    memcpy(&value, static_cast<const char *>(lock) + tag, sizeof value);
    printf("%s %#lx %s\n", name, reinterpret_cast<unsigned long>(lock), value >> 8 == 0xc0 ? "other" : "glibc");
}

// Three workers and a submitter.
class Pool {
public:
    void submit(int job) {
        std::lock_guard<std::mutex> guard(mutex);
        jobs.push_back(job);
        ready.notify_one();
    }

    void work() {
        for (;;) {
            std::unique_lock<std::mutex> guard(mutex);
            ready.wait(guard, [this] { return !jobs.empty(); });
            int job = jobs.front();
            jobs.pop_front();
            if (job < 0) return;
            sum += job;
        }
    }

    long sum = 0;
    std::mutex mutex;

private:
    std::condition_variable ready;
    std::deque<int> jobs;
};

// Hundreds of them are taken in two functions.
class Account {
public:
    __attribute__((noinline)) void deposit(int amount) {
        std::lock_guard<std::mutex> guard(mutex);
        balance += amount;
    }

    __attribute__((noinline)) long read() {
        std::lock_guard<std::mutex> guard(mutex);
        return balance;
    }

    std::mutex mutex;

private:
    long balance = 0;
};

struct Registry {
    long entries;
    std::mutex mutex;
};
static Registry registry;

static std::mutex &in_function() {
    static std::mutex mutex;
    return mutex;
}

struct Node {
    long value;
    pthread_mutex_t mutex;
};

__attribute__((noinline)) static void add_to(Node *node) {
    pthread_mutex_lock(&node->mutex);
    node->value++;
    pthread_mutex_unlock(&node->mutex);
}

__attribute__((noinline)) static long read_of(Node *node) {
    pthread_mutex_lock(&node->mutex);
    long value = node->value;
    pthread_mutex_unlock(&node->mutex);
    return value;
}

// A call here initialises a lock, and takes two others before any other call does: their names are a variable's and a call's.
static pthread_mutex_t made_count_mutex = PTHREAD_MUTEX_INITIALIZER;
static long made_count;

__attribute__((noinline)) static Node *make_node(Node *parent) {
    Node *node = new Node{1, {}};
    pthread_mutex_init(&node->mutex, nullptr);
    pthread_mutex_lock(&made_count_mutex);
    made_count++;
    pthread_mutex_unlock(&made_count_mutex);
    pthread_mutex_lock(&parent->mutex);
    parent->value += node->value;
    pthread_mutex_unlock(&parent->mutex);
    add_to(parent);
    add_to(node);
    return node;
}

int main() {
    const int times = 400, accounts_count = 300;
    auto pool = std::make_unique<Pool>();
    std::shared_mutex table_mutex;
    std::mutex captured;
    auto node = std::make_unique<Node>(Node{0, PTHREAD_MUTEX_INITIALIZER});
    std::vector<std::unique_ptr<Account>> accounts;
    std::unique_ptr<Node> made(make_node(node.get()));
    for (int i = 0; i < accounts_count; i++) accounts.push_back(std::make_unique<Account>());
    long table = 0, counted = 0, seen = 0;

    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) threads.emplace_back([&] { pool->work(); });
    for (int i = 0; i < 2; i++) {
        threads.emplace_back([&] {
            for (int n = 0; n < times; n++) {
                std::lock_guard<std::mutex> guard(captured);
                counted++;
            }
        });
        threads.emplace_back([&] {
            for (int n = 0; n < times; n++) {
                std::shared_lock<std::shared_mutex> guard(table_mutex);
                seen += table > n;
            }
        });
        threads.emplace_back([&] {
            for (int n = 0; n < times; n++) {
                accounts[n % accounts_count]->deposit(1);
                add_to(node.get());
                std::lock_guard<std::mutex> guard(registry.mutex);
                registry.entries++;
            }
        });
    }
    for (int n = 0; n < times; n++) {
        pool->submit(n);
        {
            std::unique_lock<std::shared_mutex> guard(table_mutex);
            table++;
        }
        seen += accounts[n % accounts_count]->read() + read_of(node.get());
        std::lock_guard<std::mutex> guard(in_function());
        seen++;
    }
    {
        std::lock_guard<std::mutex> guard(captured);
        counted++;
    }
    for (int i = 0; i < 3; i++) pool->submit(-1);
    for (auto &thread : threads) thread.join();

    show("pool", &pool->mutex, MUTEX_TAG);
    show("table", &table_mutex, RWLOCK_TAG);
    show("captured", &captured, MUTEX_TAG);
    show("node", &node->mutex, MUTEX_TAG);
    show("made", &made->mutex, MUTEX_TAG);
    show("made_count", &made_count_mutex, MUTEX_TAG);
    show("registry", &registry.mutex, MUTEX_TAG);
    show("in_function", &in_function(), MUTEX_TAG);
    for (auto &account : accounts) show("account", &account->mutex, MUTEX_TAG);
    bool right = counted == 2 * times + 1 && table == times && pool->sum == times * (times - 1) / 2;
    puts(right ? "ok taken" : "failed");
    return right ? 0 : 1;
}
