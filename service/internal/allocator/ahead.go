package allocator

import "github.com/weir-go/weir/internal/prefetch"

// maxAhead bounds the members for which memory is fetched ahead.
const maxAhead = 32

// Prefetch has the processor fetch the memory for a Report that follows soon. That is for
// several Allocators: their memory is then waited for at once. It must have been called with
// deep = false some time before it is called with deep = true.
func (a *Allocator) Prefetch(deep bool) {
	if deep {
		for i := 0; i < len(a.wants.first.list); i += 4 {
			prefetch.Line(&a.wants.first.list[i])
		}
		return
	}
	prefetch.Line(&a.cfg)
	prefetch.Line(&a.wants)
	prefetch.Line(&a.contention)
}

// prefetchMembers has the processor fetch what Expire reads of members, so that it waits for all of
// it at once.
func (a *Allocator) prefetchMembers() {
	for _, m := range a.expiry.Items()[:min(a.expiry.Len(), maxAhead)] {
		prefetch.Line(&m.check)
		prefetch.Line(&m.Session)
	}
}
