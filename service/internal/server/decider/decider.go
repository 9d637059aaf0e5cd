// Package decider defines the seam between the transports of weir serve and the
// node that decides: requests, verdicts and leases as plain data, and the
// interface Decider.
package decider

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir"
)

// A Decider decides about requests for tokens and leases. It is safe for
// concurrent use. An error other than those documented means that it is
// unavailable.
type Decider interface {
	// Decide decides at once: all rules that count for the key must allow the
	// request, or no tokens are taken. It does not keep req.Key after it returns. The
	// error can be ErrQuota, ErrOwnQuota or ErrNoRate. It panics if req.N < 0.
	Decide(ctx context.Context, req *Request, v *Verdict) error
	// Wait is Decide for a request that waits for missing tokens, under one rule
	// after another, behind requests that arrived earlier. It refuses at once if the
	// tokens cannot be available before the deadline of ctx or within the rule's
	// MaxWait, or if the queue is full. If ctx ends while the request waits, no tokens
	// are taken and the error is ctx.Err(). A request with a Quota does not wait. It
	// panics if req.N < 0.
	Wait(ctx context.Context, req *Request, v *Verdict) error
	// Batch decides requests in order, all as of the same instant, each into the
	// Verdict at the same place. With all set, either all requests are allowed or no
	// tokens are taken: requests that would have been allowed get a Verdict that
	// denies with Reason 0. If ctx ends meanwhile, the requests that are not decided yet
	// take no tokens (with all, none does), and the error is ctx.Err(). If the error is
	// ErrQuota, ErrOwnQuota or ErrNoRate, no request takes tokens. It panics if a cost is negative or
	// if there are fewer verdicts than requests.
	Batch(ctx context.Context, reqs []Request, all bool, verdicts []Verdict) (ok bool, err error)
	// Descriptors is Batch for the descriptors of one request: a request with a rule that is
	// replaced by the rule of another (see config.Descriptor) is allowed without a Rule, and
	// takes no tokens. Quotas of requests for other domains than those of a file of
	// envoyproxy/ratelimit are ignored, as there: it sets them to nil.
	Descriptors(ctx context.Context, reqs []Request, all bool, verdicts []Verdict) (ok bool, err error)
	// AppendGrantID appends the id of a Grant for a key: a UUID of version 8,
	// followed by a hyphen and the cost if that is not 1. Call it once for each Grant,
	// because each id can be settled once, and only if the Request had WantID.
	AppendGrantID(b []byte, g Grant, key string) []byte
	// Settle reports the true cost n of a grant, once and within GrantLife. If it is less
	// than what was taken, the buckets are then as if only n had been taken at the instant of
	// the grant. Additional tokens are charged, up to the debt that the rule
	// allows. The error is ErrNoGrant if id is not a live grant of the key, or if other
	// rules count for the key now. It panics if n < 0.
	Settle(ctx context.Context, key, id string, n int) (Settlement, error)

	// Acquire leases req.N units of a key under every rule with a concurrency that
	// counts for it. The error is a *weir.Rejection (OverLimit, QueueFull, Overdue,
	// TooLate, Closed), ErrNoLeasing, or that of ctx. It panics if req.N < 1.
	//
	// Requests wait in order of arrival. The deadline of ctx bounds the wait, not the
	// work: a request with a longer estimated wait is refused at once (TooLate). The
	// RetryAfter of a rejection is such an estimate; 0 means unknown. If ctx is
	// cancelled, there is no lease, even if its turn had come. The Lease of a rejection
	// has its Step.
	Acquire(ctx context.Context, req LeaseRequest) (Lease, error)
	// Renew extends a lease to ttl from now. The TTL and MaxTTL that the rules had when
	// the lease was granted apply as in Acquire. The error is ErrNoLease if the lease
	// is not held any more: then its holder must stop.
	Renew(ctx context.Context, key, id string, ttl time.Duration) (Lease, error)
	// Return ends a lease and reports how the work went: limits that are auto learn
	// from it. After an Outcome that is Abandoned, the units stay in flight for as long
	// as leases of the key usually last. The error is ErrNoLease.
	Return(ctx context.Context, key, id string, o weir.Outcome) error

	// Exchange takes the exchange of a leaf, a process that decides by itself, and answers
	// it in got, of which it reuses the slices. It shares the rates of the rules that count for
	// each reported key out among leaves, and charges what the leaf has used, within the debt
	// that the rules allow. Keys must be as ParseKey returns them. A report that cannot be
	// answered gets an Assignment with an Error. got must not be used by others meanwhile.
	Exchange(ctx context.Context, x *LeafExchange, got *LeafAnswer) error

	// Explain reports what a request for the key would get now, rule by rule. It takes
	// no tokens.
	Explain(ctx context.Context, key string) (Explanation, error)
	// Top returns the n keys with the most requests, of the keys that the node
	// remembers.
	Top(ctx context.Context, n int) ([]Seen, error)
}

// Errors of a Decider. Each method can return ErrMoved in a fleet: nothing was done, and the
// owner of the key must be asked.
var (
	ErrNoGrant   = errors.New("no such grant of this key: it was settled or is too old")
	ErrNoLease   = errors.New("no such lease of this key: it was returned or has expired")
	ErrLeaves    = errors.New("there are too many leaves, or assignments of leaves")
	ErrNoLeasing = errors.New("no rule with a concurrency matches this key")
	ErrNoRate    = errors.New("no rule with a rate matches this key, only one with a concurrency: ask for a lease of it")
	ErrOwnQuota  = errors.New("requests for this key may not bring a quota of their own: that takes a rule with own_quota: true, or unmatched: allow for keys without a rule")
	ErrMoved     = errors.New("the key has moved to another member of the fleet")
	ErrQuota     = errors.New("the quota must have a count, a period and a burst > 0, a nanosecond or more for each token, and refill within ten years")
)

// ErrResetUpstream is the error of a reset at a node that decides by assignments.
var ErrResetUpstream = errors.New("the limits of this key belong to the upstream: reset it there")

// A Resetter can return all tokens of a key. The result has an element for each rule with a rate that counts for it.
type Resetter interface {
	Reset(ctx context.Context, key string) ([]Reset, error)
}

// A Reset tells what was returned to the bucket of a key under a rule.
type Reset struct {
	Rule     string `json:"rule"`
	Returned int    `json:"returned"` // tokens, debts included
}

// Errors of ParseKey.
var (
	errEmptyKey = errors.New("the key is empty")
	errLongKey  = errors.New("the key is too long")
	errOddKey   = errors.New("the key must be UTF-8 without control characters")
)

// GrantLife is how long a grant can be settled.
const GrantLife = time.Hour

// ParseKey returns a key without surrounding space. It must not be empty or longer
// than most bytes, and it must be UTF-8 without control characters.
func ParseKey(text string, most int) (string, error) {
	key := strings.TrimSpace(text)
	switch {
	case key == "":
		return "", errEmptyKey
	case len(key) > most:
		return "", errLongKey
	}
	for i := range len(key) {
		if c := key[i]; c >= ' ' && c <= '~' {
			continue
		}
		if !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
			return "", errOddKey
		}
		break
	}
	return key, nil
}

// A Request asks for tokens of a key.
type Request struct {
	Key string
	// N is the cost in tokens, >= 0. With 0 no tokens are taken: the verdict is
	// whether one token is available.
	N int
	// Limit, if > 0, replaces the limit of the rules for this request, as far as the
	// node allows that. It can only make a token bucket smaller.
	Limit int
	// Queue replaces the queue size of the rules for this request if OwnQueue is set,
	// as far as the node allows that.
	Queue    int
	OwnQueue bool
	// OnWait, if not nil, is called when the request has to wait, after it has got its place
	// in the queue.
	OnWait func()
	// Now, if not zero, is the present instant, as the caller has read it already. In
	// a batch, the first request's counts.
	Now time.Time
	// WantID says that the caller will call AppendGrantID for the grant. A Decider that asks
	// another node has the id sent with the verdict.
	WantID bool
	// Quota, if not nil, decides instead of the rates of the rules, in a bucket for the
	// key and the quota. All rules that have a rate and count for the key must have
	// OwnQuota. If none matches, keys without a rule must be allowed. The verdict has one
	// answer, of a rule that is none of these, and no grant. Limit and Queue are ignored
	// then.
	Quota *Quota
}

// A Verdict is the decision about a Request, as plain data. The zero Verdict is
// ready for use, and can be used again without allocation.
type Verdict struct {
	OK bool
	// Reason of a denial: OverRate, or OverBurst (no wait helps). A request that would
	// wait can also get QueueFull, Overdue, TooLate or Closed.
	Reason weir.Reason
	// RetryAfter is when the request would be allowed if no other comes; 0 if
	// unknown, weir.Never if it never will.
	RetryAfter time.Duration
	// At is the instant of the decision, as the time since the node's epoch.
	At time.Duration
	// Rule is the first rule that counts for the key; nil if none matches.
	Rule *RuleRef
	// Answers has one answer for each rule with a rate that counts for the key, in order, up to
	// the rule that denied. There are none if no rule matches.
	Answers []Answer
	// Waited is how long the request waited, and Place how many requests were before
	// it when it arrived.
	Waited time.Duration
	Place  int
	// Grant identifies what was taken: see Decider.AppendGrantID.
	Grant Grant
	// Step says on what the decision is based.
	Step Step
}

// A Step says on what a decision is based. It is Exact or Assigned, unless the node shares
// limits with others, and their store or the node's upstream does not answer.
type Step uint8

// The steps, the best first.
const (
	Exact      Step = iota // the present state
	Assigned               // an assignment of the upstream, which answers
	Known                  // the state that the store told last, and the node's share of the refill since
	Last                   // the last assignment, which is still valid; the upstream does not answer
	Share                  // the node's share of the limit
	ByRule                 // the choice of the rule for this case: allow or deny
	StepsCount             // the number of steps
)

var stepNames = [...]string{"exact", "assigned", "known", "last", "share", "rule"}

// Degraded reports whether the decision would have a better step if the store or the
// upstream answered.
func (s Step) Degraded() bool { return s > Assigned }

// String returns the Step as answers, metrics and logs spell it.
func (s Step) String() string {
	if s < StepsCount {
		return stepNames[s]
	}
	return "unknown"
}

// Closed says why a request is denied with the reason weir.Closed.
func (s Step) Closed() string {
	if s == ByRule {
		return "the store or the upstream of the limits does not answer, and the rule denies without it"
	}
	return "the server is closing"
}

// An Answer is the decision of one rule at an instant.
type Answer struct {
	weir.Decision
	Rule *RuleRef
	At   time.Duration
}

// Denied returns the answer of the rule that denied, or nil.
func (v *Verdict) Denied() *Answer {
	if n := len(v.Answers); n > 0 && !v.OK && v.Reason != 0 {
		return &v.Answers[n-1]
	}
	return nil
}

// Remaining returns the remaining tokens of the rule that has the fewest; ok is false
// if no rule counts.
func (v *Verdict) Remaining() (least int, ok bool) {
	for i := range v.Answers {
		if a := &v.Answers[i]; !a.Rule.Shadow() && (!ok || a.Remaining < least) {
			least, ok = a.Remaining, true
		}
	}
	return least, ok
}

// Deny sets the Verdict to a denial.
func (v *Verdict) Deny(why weir.Reason, retryAfter time.Duration) {
	v.OK, v.Reason, v.RetryAfter, v.Grant = false, why, retryAfter, Grant{}
}

// A Grant records what a request was given. The zero Grant is nothing.
type Grant struct {
	N     int
	At    time.Duration // the instant of the decision
	Rules uint64        // identifies the rules that gave
	// ID is the id, if another node gave and the Request had WantID. That node settles it.
	ID string
}

// Settlement is the outcome of Decider.Settle, in tokens.
type Settlement struct {
	Was int // taken
	// Charged differs from what was reported if that exceeds the allowed debt, or if
	// it is too late to return tokens.
	Charged int
}

// A LeaseRequest asks for units of a key.
type LeaseRequest struct {
	Key string
	N   int // units, >= 1
	// TTL is how long the lease lasts unless it is renewed. If <= 0, the rule's TTL;
	// the rule's MaxTTL bounds it. Of several rules, the smallest counts.
	TTL time.Duration
	// Wait lets the request wait, until the deadline of the context or for the rule's
	// MaxWait.
	Wait bool
	// OnWait, if not nil, is called when the request has to wait, after it has got its place
	// in the queue.
	OnWait func()
}

// A Lease is units of a key that a caller holds until it returns them or the
// lease expires.
type Lease struct {
	ID  string // 32 hexadecimal digits and, if N is not 1, a hyphen and N
	Key string
	N   int // units
	// Token is a fencing token: it increases with every lease that a node grants, so
	// that a resource can reject a holder with a lower token than one it has seen. It
	// starts from the wall clock and stays below 2⁵³ until 2262. It increases over
	// restarts too: without a saved state, if the clock is not set back.
	Token    uint64
	TTL      time.Duration // from when the lease was granted or renewed
	Waited   time.Duration
	Limit    int // units of the key, of the rule with the least room
	Inflight int // units of the key in use under that rule, these included
	Step     Step
}

// A LeaseState is the state of the leases of one key under one rule: units, and
// requests that wait.
type LeaseState struct {
	Limit, Inflight, Waiting int
	// Recovers is the time until leases are granted, after a crash; else 0.
	Recovers time.Duration
}

// An Explanation describes the decision that a request for a key would get.
type Explanation struct {
	Key string
	// Allowed reports whether one token is available, Reason why not.
	Allowed    bool
	Reason     weir.Reason
	RetryAfter time.Duration
	Rules      []RuleState
}

// A RuleState is the state of one key under a rule that counts for it.
type RuleState struct {
	Rule *RuleRef
	// Remaining and Used are tokens of Rule.Limit; ResetAfter is the time until all
	// are available, weir.Never if they never will be. They are zero without a rate.
	Remaining, Used int
	ResetAfter      time.Duration
	Allowed         bool          // one token is available
	RetryAfter      time.Duration // if not: when, behind the requests that wait
	Waiting         int           // requests that wait for tokens
	Denied          uint64        // requests of the key since it began to use tokens of its first rule
	Lease           *LeaseState   // nil without a concurrency
}

// Seen is a key that the node remembers.
type Seen struct {
	Key             string
	Rules           []*RuleRef // that count for it
	Allowed, Denied uint64     // requests for tokens since the node remembers the key
	LeasesRefused   uint64     // a lower bound, counted for keys that are refused often
	Waiting         int        // requests that wait for its tokens
}

// Requests returns the requests that are counted.
func (s *Seen) Requests() uint64 { return s.Allowed + s.Denied + s.LeasesRefused }

// MergeSeen adds up the requests of keys, and returns the n keys with the most.
func MergeSeen(lists [][]Seen, n int) []Seen {
	at := map[string]int{}
	var merged []Seen
	for _, list := range lists {
		for _, s := range list {
			i, known := at[s.Key]
			if !known {
				at[s.Key] = len(merged)
				merged = append(merged, s)
				continue
			}
			merged[i].Allowed += s.Allowed
			merged[i].Denied += s.Denied
			merged[i].LeasesRefused += s.LeasesRefused
			merged[i].Waiting += s.Waiting
		}
	}
	slices.SortFunc(merged, func(a, b Seen) int {
		return cmp.Or(cmp.Compare(b.Requests(), a.Requests()), cmp.Compare(a.Key, b.Key))
	})
	return merged[:min(max(n, 0), len(merged))]
}
