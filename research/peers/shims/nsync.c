/* nsync's mutex. */
#include <nsync.h>

#include "shim.h"

SHIM_LOCK(nsync_mu, nsync_mu, nsync_mu_init(l), nsync_mu_lock(l), nsync_mu_unlock(l))
SHIM_SHARED(nsync_mu, nsync_mu, nsync_mu_rlock(l), nsync_mu_runlock(l))
