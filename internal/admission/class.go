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

// Others is the class of requests beyond MaxClasses.
const Others = "(others)"

// A class is a set of requests that share a limit.
type class struct {
	name    string
	limiter func() weir.Limiter // makes the limiter on its first call; nil: no limit

	admitted atomic.Uint64
	refused  [reasons]atomic.Uint64
	shadowed [reasons]atomic.Uint64
	outcomes [outcome.Count]atomic.Uint64
	inflight atomic.Int64 // units of recorded requests
}

// classes maps names to classes. A look-up takes no lock.
type classes struct {
	limiter func(class string) weir.Limiter

	known atomic.Pointer[map[string]*class]
	mu    sync.Mutex // serializes additions
}

func (cs *classes) get(name string) *class {
	if known := cs.known.Load(); known != nil {
		if c := (*known)[name]; c != nil {
			return c
		}
		if others := (*known)[Others]; others != nil && len(*known) >= MaxClasses {
			return others
		}
	}
	return cs.add(name)
}

// add returns the class of a name, and makes it if it does not exist.
func (cs *classes) add(name string) *class {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	all := map[string]*class{}
	if known := cs.known.Load(); known != nil {
		all = maps.Clone(*known)
	}
	if len(all) >= MaxClasses && all[name] == nil {
		name = Others
	}
	c := all[name]
	if c == nil {
		name = strings.Clone(name) // name may be part of a large string
		c = &class{name: name, limiter: sync.OnceValue(func() weir.Limiter { return cs.limiter(name) })}
		all[name] = c
		cs.known.Store(&all)
	}
	return c
}

// reasons is the number of Reasons; index 0 counts errors without a Reason.
const reasons = weir.Throttled + 1

// Rejection returns the Rejection that err is or wraps, or nil.
func Rejection(err error) *weir.Rejection {
	if r, ok := err.(*weir.Rejection); ok { // the common case; errors.As is slow
		return r
	}
	r, _ := errors.AsType[*weir.Rejection](err)
	return r
}

// reasonOf returns the Reason of an error, or 0 if it is not a rejection.
func reasonOf(err error) weir.Reason {
	if r := Rejection(err); r != nil && r.Reason < reasons {
		return r.Reason
	}
	return 0
}
