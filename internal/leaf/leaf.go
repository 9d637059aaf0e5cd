package leaf

import (
	"math"
	"time"

	"github.com/weir-go/weir"
)

// A Step says by what a leaf has decided, from the best to the worst.
type Step uint8

// The steps of the ladder. The zero Step is no decision.
const (
	// Ask means that the leaf has not decided: the key has no assignment, and its Policy
	// says that the upstream is asked about each request meanwhile.
	Ask Step = iota
	// Assigned is a decision by a live assignment.
	Assigned
	// Last is a decision by an assignment that is still valid, while the upstream is away.
	Last
	// Share is a decision by the part of the limit that each leaf may use without an assignment.
	Share
	// ByRule is a decision that only the key's Policy has made: to allow or to deny.
	ByRule
)

var steps = [...]string{"ask", "assigned", "last", "share", "rule"}

func (s Step) String() string {
	if int(s) < len(steps) {
		return steps[s]
	}
	return "unknown"
}

// First selects how a leaf decides about a key that has no assignment yet.
type First uint8

const (
	AskFirst   First = iota // the step is Ask
	ShareFirst              // by the share of Policy.Limit, with a full bucket
	DenyFirst               // it denies
)

// Away selects how a leaf decides about a key without an assignment while the upstream is
// away.
type Away uint8

const (
	DenyAway    Away = iota // it denies
	AllowAway               // it allows
	ShareAway               // by the safe share of the limit; it denies if it knows no limit
	ShareOrPass             // by the safe share of the limit; it allows if it knows no limit
)

// shares reports whether a key with a known limit is decided by the safe share of that.
func (a Away) shares() bool { return a == ShareAway || a == ShareOrPass }

// passes reports whether a key that is decided by the Policy alone is allowed.
func (a Away) passes() bool { return a == AllowAway || a == ShareOrPass }

// A Limit is a rate with a burst.
type Limit struct {
	Rate  float64 // tokens a second, >= 0
	Burst float64 // tokens, >= 0
}

// A Policy says how a leaf decides about a key without an assignment. The zero Policy asks
// the upstream, and denies while that is away.
type Policy struct {
	First First
	Away  Away
	// Limit is the limit of the key, for all leaves together, while the upstream has not told
	// one. If zero, it is not known.
	Limit Limit
	// Leaves is the least number of leaves that the limit is divided by. The number that
	// the upstream has told counts if it is greater. If zero, 1.
	Leaves int
}

// Config configures a leaf. The zero value of a number selects its default.
type Config struct {
	// Name identifies the process at the upstream. It is required.
	Name string
	// MaxKeys bounds the keys. Further keys are decided as keys without an assignment, and
	// those of ShareFirst and ShareAway are asked and denied. If zero, 100,000.
	MaxKeys int
	// MaxWaiters bounds the callers that wait for tokens. If zero, 10,000.
	MaxWaiters int
	// MaxReports bounds the reports of one exchange. The next exchange, with more reports,
	// is due at once. If zero, 5,000.
	MaxReports int
	// Overdue is how long after an exchange is due the upstream counts as away if it has not
	// answered. If zero, 1 second.
	Overdue time.Duration
	// Share is Exchange.Share.
	Share bool
	// Idle has the leaf exchange from the beginning, and also while it has no keys, so that its
	// owner knows whether the upstream answers.
	Idle bool
}

// WithDefaults returns the Config with a default for each number that is zero.
func (c Config) WithDefaults() Config {
	for _, n := range []struct {
		field *int
		value int
	}{{&c.MaxKeys, 100_000}, {&c.MaxWaiters, 10_000}, {&c.MaxReports, 5_000}} {
		if *n.field == 0 {
			*n.field = n.value
		}
	}
	if c.Overdue == 0 {
		c.Overdue = time.Second
	}
	return c
}

// validOrZero returns a rate, burst or count x of another process, or 0 if it is negative, infinite
// or not a number.
func validOrZero(x float64) float64 {
	if !(x >= 0) || math.IsInf(x, 1) {
		return 0
	}
	return x
}

// duration returns the time in which tokens come in at a rate.
func duration(tokens, rate float64) time.Duration {
	if s := tokens / rate * float64(time.Second); s < float64(weir.Never) { // false for 0/0
		return time.Duration(math.Ceil(max(s, 0)))
	}
	return weir.Never
}
