// Package leaf decides about rate limits in a process that has a share of them: a leaf.
// The leaf tells its upstream how much it uses and wants, and the upstream assigns it a
// rate, a burst and a time to live for each key.
package leaf

// An Exchange is a leaf's message to its upstream: POST /assign of weir serve. It renews all
// assignments that the leaf has there, not only those of its reports: except of a key of which
// there was no report for 16 times to live.
type Exchange struct {
	// Leaf identifies the process. Two processes must not have the same name.
	Leaf string `json:"leaf"`
	// Held is the number of keys of which the leaf has an assignment that has not ended.
	Held int `json:"held"`
	// Share tells that the leaf goes on with its safe share if it is cut off, under rules that do not say what
	// it does then.
	Share bool `json:"share,omitempty"`
	// Leave ends all assignments of the leaf, which uses them no more.
	Leave bool `json:"leave,omitempty"`
	// Reports are about the keys that have changed.
	Reports []Report `json:"reports,omitempty"`
}

// A Report tells the use of a key by a leaf.
type Report struct {
	Key   string  `json:"key"`
	Used  int     `json:"used,omitempty"`  // tokens since the last report, >= 0
	Wants float64 `json:"wants,omitempty"` // tokens a second that the leaf would use if it had no limit
	Has   float64 `json:"has,omitempty"`   // tokens a second that the leaf may use now
	// Done gives the assignment back.
	Done bool `json:"done,omitempty"`
}

// An Answer is the upstream's answer to an Exchange.
type Answer struct {
	TTLMS  int64 `json:"ttlMs"`  // for how long all assignments of the leaf are valid, in milliseconds
	NextMS int64 `json:"nextMs"` // when the next exchange is due
	// Resync asks the leaf to report all its keys, in one exchange or several: the leaf has more
	// assignments than the upstream knows of (Exchange.Held), or rules have changed.
	Resync bool `json:"resync,omitempty"`
	// Leaves is the number of leaves that may use the keys of this leaf, with itself; 0 if it is not known.
	// Leaves with a token for some keys count only for leaves with the same token.
	Leaves int `json:"leaves,omitempty"`
	// Watch has keys of the leaf of which more is wanted than there is, and of which the leaf has
	// another rate than its share. The leaf reports them in the next exchange: until then they
	// are in each Answer.
	Watch       []string     `json:"watch,omitempty"`
	Assignments []Assignment `json:"assignments,omitempty"` // of the reported keys, in order
}

// An Assignment bounds the use of a key by a leaf.
type Assignment struct {
	Key   string  `json:"key"`
	Rate  float64 `json:"rate"`  // tokens a second
	Burst float64 `json:"burst"` // tokens
	// Unlimited is set if no rule limits the key.
	Unlimited bool `json:"unlimited,omitempty"`
	// Learning is set for a leaf without an assignment while the upstream may not know all
	// that other leaves have. The leaf does as if it had no answer about the key.
	Learning bool `json:"learning,omitempty"`
	// Contended is set if the leaves want more than there is, or one lacks a part of its share
	// that others still have.
	Contended bool `json:"contended,omitempty"`
	// LimitRate and LimitBurst are the limit that Leaves leaves share.
	LimitRate  float64 `json:"limitRate,omitempty"`
	LimitBurst float64 `json:"limitBurst,omitempty"`
	Leaves     int     `json:"leaves,omitempty"`
	// Error says why there is no assignment: the key is not valid, the leaf's token does not
	// allow it, or there are too many leaves.
	Error string `json:"error,omitempty"`
}
