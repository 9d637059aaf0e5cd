// Package config is what an operator tells weir serve: rules, which say how
// much each key may have.
//
//	apply: first                # or all: every rule that matches must allow it
//	rules:
//	  - name: logins
//	    glob: "login:*"         # or key: (exactly this), or regex: (RE2)
//	    rate: 5/m               # a quota: 100/s, 100/90s, 1000/h
//	    burst: 10               # of a token bucket; the rate's count if left out
//	    algorithm: gcra         # or fixed, sliding: windows
//	    queue: 20               # requests that may wait for one bucket
//	    max_wait: 10s
//	  - name: reports
//	    key: reports
//	    concurrency: {limit: 10, ttl: 30s}    # leases; or limit: auto
//	  - name: everybody
//	    glob: "*"
//	    per: rule               # one bucket for all keys, not one for each
//	    rate: 1000/s
//	    mode: shadow            # decide and count, but refuse nothing
//	    candidate: {rate: 500/s}    # and count what this would do
//
// Load reads it, says all that is wrong with it, and reads GoCC's files too.
package config

import "time"

// Apply says which of the rules that match a key count.
type Apply string

const (
	First Apply = "first" // the first one in the file; the default
	All   Apply = "all"   // all of them: a request takes from each, or from none
)

// Rules is what a file, or a directory of files, says.
type Rules struct {
	// Apply is First if empty.
	Apply Apply `yaml:"apply"`
	// Unmatched says what becomes of keys that no rule matches: "allow" (if empty)
	// or "deny".
	Unmatched string `yaml:"unmatched"`
	Rules     []Rule `yaml:"rules"`

	// Merge makes one rule of all that match a key, laid over each other in their
	// order: see Merged. Apply is not used then. Rules[0] matches every key, and
	// holds the defaults. Only a GoCC file says so.
	Merge bool `yaml:"-"`
	// Hash tells apart what was loaded: 12 hexadecimal digits. It is empty if the
	// Rules are not from a file.
	Hash string `yaml:"-"`
}

// A Rule says how much the keys that match it may have. Exactly one of Key,
// Glob and Regex is given; and a Rate, a Concurrency or both.
type Rule struct {
	// Name is how answers, metrics and logs call the rule: at most 64 characters of
	// printable ASCII, none of them " or \, and unlike any other. If empty, Complete
	// makes it from the pattern.
	Name string `yaml:"name"`

	// Key matches exactly one key.
	Key string `yaml:"key"`
	// Glob matches the whole key: * is any text, / and nothing included; ? is any
	// one character; a backslash takes the next character as it is.
	Glob string `yaml:"glob"`
	// Regex is an RE2 that must match somewhere in the key, unless it says ^ and $.
	Regex string `yaml:"regex"`
	// Per says whose the bucket and the limit are: PerKey (if empty) or PerRule.
	Per Per `yaml:"per"`

	Quota `yaml:",inline"`

	// Queue bounds those who wait for one bucket. If nil, DefaultQueue; zero lets
	// nobody wait.
	Queue *int `yaml:"queue"`
	// MaxWait bounds the wait for a rate. If zero, a caller waits as long as it
	// says.
	MaxWait time.Duration `yaml:"max_wait"`
	// MaxDebt bounds, in tokens, the debt by work that cost more than was thought
	// (settling). If nil, the burst; zero is no debt.
	MaxDebt *int `yaml:"max_debt"`

	// Concurrency bounds the leases held at once. If nil, there are none.
	Concurrency *Concurrency `yaml:"concurrency"`

	// Mode says whether the rule counts: Enforce if empty.
	Mode Mode `yaml:"mode"`
	// Candidate is a quota on trial: what it would decide is counted beside what
	// the rule does. If nil, there is none.
	Candidate *Quota `yaml:"candidate"`
}

// DefaultQueue is Rule.Queue where it is nil.
const DefaultQueue = 100

// A Quota is a rate, and how it is counted.
type Quota struct {
	// Rate is so many tokens in such a time. The zero Rate is none.
	Rate Rate `yaml:"rate"`
	// Burst is what a token bucket holds. If zero, Rate.Count. Windows have none.
	Burst int `yaml:"burst"`
	// Algorithm is GCRA if empty.
	Algorithm Algorithm `yaml:"algorithm"`
}

// A Rate is Count tokens in each Period. The zero Rate is none; a Count of zero
// with a Period lets nothing pass. In text it is 100/s, 100/90s, 5/m, 1000/h or
// 10000/d.
type Rate struct {
	Count  int
	Period time.Duration // > 0
}

// Algorithm says how a rate is counted.
type Algorithm string

const (
	GCRA    Algorithm = "gcra"    // a token bucket
	Fixed   Algorithm = "fixed"   // windows that begin with a key's first request
	Sliding Algorithm = "sliding" // windows of which the last fades out over the next
)

// Windows reports whether the Algorithm counts in windows rather than with a
// token bucket.
func (a Algorithm) Windows() bool { return a == Fixed || a == Sliding }

// Limit returns the most tokens that a key can have at once.
func (q Quota) Limit() int {
	if q.Burst > 0 && !q.Algorithm.Windows() {
		return q.Burst
	}
	return q.Rate.Count
}

// Rated reports whether the rule has a rate.
func (r *Rule) Rated() bool { return r.Rate.Period > 0 }

// Per says whose a bucket is.
type Per string

const (
	PerKey  Per = "key"
	PerRule Per = "rule"
)

// Mode says whether a rule refuses.
type Mode string

const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // decide and count, but refuse nothing
	Off     Mode = "off"    // as if it were not there
)

// A Concurrency bounds how many leases are held at once, in units.
type Concurrency struct {
	// Limit is a number of units, or Auto: 0. In text, a number or auto.
	Limit Limit `yaml:"limit"`
	// Min and Max bound what Auto finds. If zero, 1 and 1000.
	Min int `yaml:"min"`
	Max int `yaml:"max"`
	// Queue bounds those who wait for a lease. If nil, DefaultQueue; zero lets
	// nobody wait.
	Queue *int `yaml:"queue"`
	// MaxWait bounds that wait. If zero, a caller waits as long as it says.
	MaxWait time.Duration `yaml:"max_wait"`
	// TTL is how long a lease lasts unless it is renewed, where a request does not
	// say. If zero, DefaultTTL.
	TTL time.Duration `yaml:"ttl"`
	// MaxTTL bounds what a request may say. If zero, ten times TTL.
	MaxTTL time.Duration `yaml:"max_ttl"`
}

// DefaultTTL is Concurrency.TTL where it is zero.
const DefaultTTL = 30 * time.Second

// A Limit is a number of units; Auto finds it.
type Limit int

// Auto is the Limit that finds itself (package limit).
const Auto Limit = 0
