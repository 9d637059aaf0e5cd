package admission

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// Others is the class of those that come when there are as many as there may
// be.
const Others = "(others)"

// A class is the requests that share a limit.
type class struct {
	name    string
	limiter func() weir.Limiter // which makes it when it is first asked for; nil: none

	admitted atomic.Uint64
	refused  [reasons]atomic.Uint64
	shadowed [reasons]atomic.Uint64
	outcomes [outcome.Count]atomic.Uint64
}

// classes are found without a lock.
type classes struct {
	most    int
	limiter func(class string) weir.Limiter

	known atomic.Pointer[map[string]*class]
	mu    sync.Mutex // of those who add one
}

func (cs *classes) of(name string) *class {
	if known := cs.known.Load(); known != nil {
		if c := (*known)[name]; c != nil {
			return c
		}
		if others := (*known)[Others]; others != nil && len(*known) >= cs.most {
			return others
		}
	}
	return cs.add(name)
}

// add returns the class of a name, and makes it if need be.
func (cs *classes) add(name string) *class {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all := map[string]*class{}
	if known := cs.known.Load(); known != nil {
		all = maps.Clone(*known)
	}
	if len(all) >= cs.most && all[name] == nil {
		name = Others
	}
	c := all[name]
	if c == nil {
		name = strings.Clone(name) // what it is part of may be large
		c = &class{name: name, limiter: sync.OnceValue(func() weir.Limiter { return cs.limiter(name) })}
		all[name] = c
		cs.known.Store(&all)
	}
	return c
}

// reasons is one more than the last Reason; the first is of what is none.
const reasons = weir.Throttled + 1

// reasonOf says under which reason an error is counted: 0 if the caller left,
// or it is no rejection.
func reasonOf(err error) weir.Reason {
	r, ok := err.(*weir.Rejection) // as a rule, and errors.As is slow
	if !ok {
		r, ok = errors.AsType[*weir.Rejection](err)
	}
	if ok && r.Reason < reasons {
		return r.Reason
	}
	return 0
}
