package decider

import "time"

// A RuleRef describes a rule in answers. It is plain data, and must not be changed. Its
// address stands for the rule in caches: a rule has another one after each reload.
//
// Its JSON is part of the protocol of instances (package peer), so names of fields stay.
type RuleRef struct {
	Name string
	Mode string // as in the file: empty, enforce or shadow
	// Rate is zero without one. Limit is the most tokens that a key can have at once.
	Rate  Rate
	Limit int `json:"Burst"`
	// Algorithm is how it counts, as in the file: empty or gcra for a token bucket, and others
	// for windows.
	Algorithm string

	// Descriptor is set by files of envoyproxy/ratelimit alone.
	Descriptor *DescriptorRef

	Kind, Pattern string // the field of the file that has the pattern, and its text
	Per           string // as in the file: empty, key or rule
	Text          string // the rate, as "100/s burst 200"; empty without one
	Trial         string // the candidate, likewise
	MaxQueue      int    // requests that may wait for one bucket
}

// A Rate is a number of tokens per period.
type Rate struct {
	Count  int
	Period time.Duration
}

// A DescriptorRef describes the rule of a descriptor in answers to Envoy.
type DescriptorRef struct {
	Name          string // in answers; it may be empty
	Unlimited     bool
	Quota, Shadow bool           // see config.Descriptor
	Metadata      map[string]any // for requests that the rule allows
}

// Rated reports whether the rule has a rate.
func (r *RuleRef) Rated() bool { return r.Rate.Period > 0 }

// Shadow reports whether the rule decides and counts, but refuses nothing.
func (r *RuleRef) Shadow() bool { return r.Mode == "shadow" }

// Windows reports whether the rule counts in windows, not in a token bucket.
func (r *RuleRef) Windows() bool { return r.Algorithm != "" && r.Algorithm != "gcra" }

// Resets reports whether the rule counts in windows that begin at zero.
func (r *RuleRef) Resets() bool { return r.Windows() && r.Algorithm != "sliding" }
