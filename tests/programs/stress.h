// What the stress programs share beside case.h: threads in numbers, started together.

#ifndef STRESS_H
#define STRESS_H

#include "case.h"

struct member {
    pthread_t thread;
    void *(*work)(void *);
    void *argument;
    sem_t *start;
};

struct team {
    long size;
    struct member *members;
    sem_t start;
};

MAYBE_UNUSED static void *member_main(void *argument) {
    struct member *self = (struct member *)argument;
    sem_take(self->start);
    sem_post(self->start); // one gate for all
    return self->work(self->argument);
}

// Creates `size` threads, each with its number as the argument, and lets all go at once.
MAYBE_UNUSED static struct team *assemble(long size, void *(*work)(void *)) {
    struct team *team = (struct team *)malloc(sizeof *team);
    CHECK(team != NULL);
    team->size = size;
    team->members = (struct member *)calloc((size_t)size, sizeof *team->members);
    CHECK(team->members != NULL && sem_init(&team->start, 0, 0) == 0);
    for (long i = 0; i < size; i++) {
        struct member *member = &team->members[i];
        *member = (struct member){.work = work, .argument = (void *)i, .start = &team->start};
        MUST(pthread_create(&member->thread, NULL, member_main, member));
    }
    sem_post(&team->start);
    return team;
}

MAYBE_UNUSED static void disperse(struct team *team) {
    for (long i = 0; i < team->size; i++) MUST(pthread_join(team->members[i].thread, NULL));
    free(team->members);
    free(team);
}

// A cheap generator for choices that only have to be spread.
MAYBE_UNUSED static uint32_t next_random(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

#endif
