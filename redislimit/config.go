package redislimit

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir/internal/redislink"
)

// DefaultTimeout is Config.Timeout if that is zero.
const DefaultTimeout = 50 * time.Millisecond

var _ [0]struct{} = [DefaultTimeout - redislink.DefaultTimeout]struct{}{} // they are equal

// Away selects how a Limiter decides while the server is away, once Config.Known is over.
type Away uint8

const (
	Deny  Away = iota + 1 // it denies every request
	Allow                 // it allows every request
	Share                 // it allows what its share of the limit allows: see Config.Instances
)

// A Step of the ladder says what a decision is based on. Steps after the first are degraded.
type Step uint8

const (
	Exact  Step = iota // the server has decided
	Known              // what the server has told last, and what has been refilled since: see Config.Known
	Shared             // the share of this instance: Config.Away is Share
	Chosen             // Config.Away, Deny or Allow
	steps
)

var stepNames = [...]string{"exact", "known", "share", "chosen"}

// String returns the Step as metrics and logs spell it.
func (s Step) String() string {
	if s < steps {
		return stepNames[s]
	}
	return "unknown"
}

// Config configures New. Away and Instances are required.
type Config struct {
	// Prefix begins every key in the server. Limiters with the same Prefix share their
	// buckets, so give each limit of a program its own. If empty, "weir:rate:".
	Prefix string
	// Timeout bounds the time until the server's decision. After it, the Limiter decides
	// itself. If zero, DefaultTimeout.
	Timeout time.Duration
	// MaxWait bounds the wait of Acquire, even if its context allows more. If zero, 30
	// seconds; if negative, no call waits.
	MaxWait time.Duration
	// MaxDebt bounds the debt of a key, in tokens, that a Permit's Use can make. If zero, it
	// is the burst; if negative, there is no debt.
	MaxDebt int
	// Queue bounds the calls that are about to be sent; a Cluster has 16 such queues. The
	// Limiter decides calls beyond it itself. If zero, 10,000.
	Queue int

	// Away selects how the Limiter decides while the server does not, once Known is over.
	// There is no default.
	Away Away
	// Instances is the greatest number of Limiters that share the limits at the same time,
	// such as the replicas of a service: at least 1. While the server is away, each has the
	// rate and the burst divided by Instances, the burst rounded down, so that all of them
	// together keep to the limit. A burst below Instances allows nothing.
	Instances int
	// Known is for how long after the server's last answer the Limiter decides by what it
	// knows of the keys: the tokens that the server said were left, divided by Instances, and
	// the share of the refill since. A key of which the server has told nothing has a full
	// share. If zero, 10 seconds; if negative, there is no such time.
	Known time.Duration
	// OnAway, if not nil, is called with the reason when the Limiter considers the server
	// away, and with nil when it is back: once for each change, not concurrently. In a
	// Cluster it is called for each sixteenth of the slots. It must not panic.
	OnAway func(err error)
}

// withDefaults returns the Config with defaults, or an error that names the first field that
// makes no sense.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Away < Deny || c.Away > Share:
		return c, fmt.Errorf("redislimit: Away = %d: must be Deny, Allow or Share: how to decide while the server is away", c.Away)
	case c.Instances < 1:
		return c, fmt.Errorf("redislimit: Instances = %d: must be the number of Limiters that share the limits, at least 1", c.Instances)
	case c.Queue < 0:
		return c, fmt.Errorf("redislimit: Queue = %d: must be >= 0", c.Queue)
	case c.Timeout < 0 || c.Timeout > longest:
		return c, fmt.Errorf("redislimit: Timeout = %v: must be from 0 to %v", c.Timeout, longest)
	case c.MaxWait > longest:
		return c, fmt.Errorf("redislimit: MaxWait = %v: must be at most %v", c.MaxWait, longest)
	}
	c.Prefix = cmp.Or(c.Prefix, "weir:rate:")
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.MaxWait = max(cmp.Or(c.MaxWait, 30*time.Second), 0)
	c.Queue = cmp.Or(c.Queue, redislink.DefaultQueue)
	c.Known = max(cmp.Or(c.Known, 10*time.Second), 0)
	if c.OnAway == nil {
		c.OnAway = func(error) {}
	}
	return c, nil
}

// longest bounds durations, so that they can be added to each other.
const longest = time.Duration(math.MaxInt64 / 4)
