// Several locks in one variable, the first of them at its start: two members, two arrays, and an array of locks alone.

#include <cstdio>
#include <mutex>
#include <thread>

struct Pool {
    std::mutex jobs;
    long count;
    std::mutex log;
};

struct Two {
    std::mutex a[8];
    std::mutex b[8];
};

static Pool pool;
static Two two;
static std::mutex shards[9];

static void take(std::mutex &mutex)
{
    std::lock_guard<std::mutex> guard(mutex);
    pool.count++;
}

static void take_all()
{
    take(pool.jobs);
    take(pool.log);
    for (std::mutex &mutex : two.a)
        take(mutex);
    for (std::mutex &mutex : two.b)
        take(mutex);
    for (std::mutex &mutex : shards)
        take(mutex);
}

int main()
{
    std::thread(take_all).join();
    take_all();
    std::printf("ok members\n");
}
