// Abseil's mutex.
#include <new>

#include <absl/synchronization/mutex.h>

#include "shim.h"

SHIM_LOCK(absl_mutex, absl::Mutex, new (l) absl::Mutex, l->Lock(), l->Unlock())
SHIM_SHARED(absl_mutex, absl::Mutex, l->ReaderLock(), l->ReaderUnlock())
