// Two tables of sixteen locks, one in a static array and one on the heap. One lock of each is held for long while the other thread waits.
#include <pthread.h>
#include <unistd.h>
#include <cstdio>
#include <mutex>
#include <thread>

constexpr int LOCKS = 16, HOT = 3, ROUNDS = 20;

struct Shard {
  std::mutex lock;
  long entries = 0;
};
static Shard shards[LOCKS];

struct Bucket {
  pthread_mutex_t lock;
  long entries;
};

__attribute__((noinline)) static Bucket *make_bucket() {
  auto *bucket = new Bucket();
  pthread_mutex_init(&bucket->lock, nullptr);
  return bucket;
}

static Bucket *buckets[LOCKS];
static pthread_barrier_t barrier;

__attribute__((noinline)) static void touch_all() {
  for (auto &shard : shards) {
    std::lock_guard<std::mutex> guard(shard.lock);
    shard.entries++;
  }
  for (Bucket *bucket : buckets) {
    pthread_mutex_lock(&bucket->lock);
    bucket->entries++;
    pthread_mutex_unlock(&bucket->lock);
  }
}

__attribute__((noinline)) static void hold_hot_ones(int usec) {
  shards[HOT].lock.lock();
  pthread_barrier_wait(&barrier);
  usleep(usec);
  shards[HOT].lock.unlock();
  pthread_barrier_wait(&barrier);
  pthread_mutex_lock(&buckets[HOT]->lock);
  pthread_barrier_wait(&barrier);
  usleep(usec);
  pthread_mutex_unlock(&buckets[HOT]->lock);
  pthread_barrier_wait(&barrier);
}

__attribute__((noinline)) static void wait_for_hot_ones() {
  pthread_barrier_wait(&barrier);
  shards[HOT].lock.lock();
  shards[HOT].lock.unlock();
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  pthread_mutex_lock(&buckets[HOT]->lock);
  pthread_mutex_unlock(&buckets[HOT]->lock);
  pthread_barrier_wait(&barrier);
}

int main() {
  pthread_barrier_init(&barrier, nullptr, 2);
  for (Bucket *&bucket : buckets) bucket = make_bucket();
  std::thread other([] {
    for (int round = 0; round < ROUNDS; round++) wait_for_hot_ones();
    touch_all();
  });
  for (int round = 0; round < ROUNDS; round++) hold_hot_ones(2000);
  touch_all();
  other.join();
  std::puts("{}");
}
