package admission

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/caller"
	"github.com/weir-go/weir/recording"
)

// MaxClasses bounds the classes. Requests of further classes share one more, Others.
const MaxClasses = 1000

// Config configures a Door. Several goroutines call its functions at once.
type Config[R any] struct {
	// Rules are asked in order, before the limit of the class.
	Rules []Rule[R]
	// Limiter is the limit of all classes, and PerClass returns the limit of one
	// class when its first request comes. Nil means no limit. At most one of them
	// may be set.
	Limiter  weir.Limiter
	PerClass func(class string) weir.Limiter
	// Units returns the units of its class's limit that a request takes, >= 0. If
	// nil, one.
	Units func(R) int
	// Exempt holds the paths that Door.Exempt knows. A path that ends with a slash
	// stands for everything below it.
	Exempt []string
	// Trusted holds the networks that Door.Trusts knows.
	Trusted []netip.Prefix
	// RetryJitter is the longest random addition to a retry time.
	RetryJitter time.Duration
	// Shadow admits every request, and counts the ones that it would have refused.
	Shadow bool
	// Recorder, if not nil, receives a record of each request.
	Recorder *recording.Recorder
}

// Validate returns an error that names the first invalid field.
func (c Config[R]) Validate() error {
	names := map[string]bool{}
	for i := range c.Rules {
		if err := c.Rules[i].validate(names); err != nil {
			return fmt.Errorf("Rules[%d]%w", i, err)
		}
	}
	switch {
	case c.Limiter != nil && c.PerClass != nil:
		return fmt.Errorf("PerClass: must be nil, since Limiter is not")
	case c.RetryJitter < 0:
		return fmt.Errorf("RetryJitter = %v: must be >= 0", c.RetryJitter)
	}
	if i := caller.Invalid(c.Trusted); i >= 0 {
		//lint:ignore ST1005 it begins with the name of a field
		return fmt.Errorf("Trusted[%d]: is not a network", i)
	}
	for i, path := range c.Exempt {
		if path == "" || path[0] != '/' {
			//lint:ignore ST1005 it begins with the name of a field
			return fmt.Errorf("Exempt[%d] = %q: must begin with a slash", i, path)
		}
	}
	return nil
}

// paths is a set of paths, and of prefixes of paths.
type paths struct {
	exact    map[string]bool
	prefixes []string // each ends with a slash
}

func newPaths(list []string) paths {
	p := paths{exact: make(map[string]bool, len(list))}
	for _, path := range list {
		if strings.HasSuffix(path, "/") {
			p.prefixes = append(p.prefixes, path)
		} else {
			p.exact[path] = true
		}
	}
	return p
}

// has reports whether the set contains a path. A path that a handler could clean
// to one outside a prefix does not match that prefix.
func (p *paths) has(path string) bool {
	if p.exact[path] {
		return true
	}
	for _, prefix := range p.prefixes {
		if strings.HasPrefix(path, prefix) && !strings.Contains(path, "/.") && !strings.Contains(path, "//") {
			return true
		}
	}
	return false
}
