// A program that sandboxes itself: a filter ends it at every system call but those that it needs by itself, and those that README
// names for recording.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/audit.h>
#include <stddef.h>
#include <stdio.h>
#include <pthread.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static long n; static volatile int go;
static void *work(void *x){ while(!go); for(int i=0;i<200000;i++){ pthread_mutex_lock(&m); n++; pthread_mutex_unlock(&m);} return x; }
#define OK(nr) BPF_JUMP(BPF_JMP|BPF_JEQ|BPF_K,nr,0,1), BPF_STMT(BPF_RET|BPF_K,SECCOMP_RET_ALLOW)
int main(void){
  struct sock_filter f[]={ BPF_STMT(BPF_LD|BPF_W|BPF_ABS,offsetof(struct seccomp_data,nr)),
   OK(SYS_read),OK(SYS_write),OK(SYS_exit),OK(SYS_exit_group),OK(SYS_futex),OK(SYS_mmap),OK(SYS_munmap),OK(SYS_mprotect),OK(SYS_madvise),
   OK(SYS_clone3),OK(SYS_clone),OK(SYS_rt_sigprocmask),OK(SYS_set_robust_list),OK(SYS_rseq),OK(SYS_newfstatat),OK(SYS_fstat),OK(SYS_brk),OK(SYS_clock_gettime),OK(SYS_rt_sigaction),OK(SYS_getrandom),OK(SYS_sched_getaffinity),OK(SYS_prlimit64),OK(SYS_gettid),
   // What README names.
   OK(SYS_sched_yield),OK(SYS_membarrier),OK(SYS_getpid),OK(SYS_tgkill),OK(SYS_openat),OK(SYS_close),OK(SYS_fallocate),OK(SYS_getrusage),
   BPF_STMT(BPF_RET|BPF_K,SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog p={sizeof f/sizeof *f,f}; prctl(PR_SET_NO_NEW_PRIVS,1,0,0,0); if(prctl(PR_SET_SECCOMP,SECCOMP_MODE_FILTER,&p)) return 9;
  pthread_t t[4]; for(int i=0;i<4;i++) pthread_create(&t[i],0,work,0); go=1; for(int i=0;i<4;i++) pthread_join(t[i],0); printf("ok %ld\n",n); return 0; }
