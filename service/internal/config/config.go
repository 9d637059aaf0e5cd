// Package config reads the rules of weir serve, which limit the rate and the
// concurrency of each key.
//
//	apply: first                # or all: every rule that matches must allow it
//	rules:
//	  - name: logins
//	    glob: "login:*"         # or key: (exactly this), regex: (RE2), or entries:
//	    rate: 5/m               # a quota: 100/s, 100/90s, 1000/h
//	    burst: 10               # of a token bucket; the rate's count if left out
//	    algorithm: gcra         # or fixed, sliding, calendar: windows
//	    queue: 20               # requests that may wait for one bucket
//	    max_wait: 10s
//	  - name: reports
//	    key: reports
//	    concurrency: {limit: 10, ttl: 30s}    # leases; or limit: auto
//	  - name: posts
//	    domain: edge            # keys of descriptors of this domain
//	    entries: {method: POST, path: "/api/*"}
//	    rate: 10/s
//	  - name: others
//	    glob: "*"
//	    per: rule               # one bucket for all keys, not one for each
//	    rate: 1000/s
//	    mode: shadow            # decide and count, but refuse nothing
//	    candidate: {rate: 500/s}    # and count what this would do
//
// Load reads such a file, one of GoCC, or files of envoyproxy/ratelimit, and reports all
// errors in it.
package config

import (
	"time"

	"github.com/weir-go/weir/service/internal/bytesize"
	"github.com/weir-go/weir/service/internal/descriptor"
)

// Apply selects which of the rules that match a key count.
type Apply string

const (
	First Apply = "first" // the first one in the file; the default
	All   Apply = "all"   // all of them: a request takes from each, or from none
)

// Rules is the content of a file, or of a directory of files.
type Rules struct {
	// Apply is First if empty.
	Apply Apply `yaml:"apply"`
	// Unmatched is the decision for keys that no rule matches: "allow" (if empty) or
	// "deny".
	Unmatched string `yaml:"unmatched"`
	Rules     []Rule `yaml:"rules"`

	// Merge overlays all rules that match a key, in their order, to one effective rule:
	// see Merged. Apply is not used then. Rules[0] matches every key and has the
	// defaults. Only GoCC files set it.
	Merge bool `yaml:"-"`
	// Descriptors, if not nil, finds the rule of a key, by its index; Apply and the
	// patterns of rules are not used then. Every rule has a Descriptor. Only files of
	// envoyproxy/ratelimit set it.
	Descriptors *descriptor.Tree `yaml:"-"`
	// Overrides is the algorithm of limits that descriptors bring in requests: GCRA (if
	// empty) or FixedWindow. Only files of envoyproxy/ratelimit set it.
	Overrides Algorithm `yaml:"-"`
	// Hash identifies the content, with 12 hexadecimal digits. It is empty if the Rules
	// are not from a file.
	Hash string `yaml:"-"`
}

// A Rule limits the keys that match it. It has exactly one of Key, Glob, Regex, Entries
// and Descriptor; and a Rate, a Concurrency or both.
type Rule struct {
	// Name identifies the rule in answers, metrics and logs: at most 64 characters of
	// printable ASCII without " and \, unique among the rules. If empty, Complete makes
	// it from the pattern.
	Name string `yaml:"name"`

	// Key matches exactly one key.
	Key string `yaml:"key"`
	// Glob matches the whole key: * is any text, including / and the empty text; ? is
	// any one character; a backslash escapes the next character.
	Glob string `yaml:"glob"`
	// Regex is an RE2 that must match a part of the key; with ^ and $, all of it.
	Regex string `yaml:"regex"`
	// Domain is a glob for the domain of descriptors. If empty, any domain matches. It
	// must be empty without Entries.
	Domain string `yaml:"domain"`
	// Entries matches the keys of descriptors (package descriptor) that have all these
	// entries, in any order, among others. It maps the key of an entry, which is not
	// empty, to a glob for its value. If a descriptor has several entries of a key, one
	// of them must match. If nil, the rule has another pattern.
	Entries map[string]string `yaml:"entries"`
	// Descriptor is set by files of envoyproxy/ratelimit alone.
	Descriptor *Descriptor `yaml:"-"`
	// Per is the scope of the bucket and the limit: PerKey (if empty) or PerRule.
	Per Per `yaml:"per"`

	Quota `yaml:",inline"`

	// Queue bounds the requests that wait for one bucket. If nil, DefaultQueue; if
	// zero, no request waits.
	Queue *int `yaml:"queue"`
	// MaxWait bounds the wait for tokens. If zero, Complete sets DefaultMaxWait; for
	// rules of GoCC, where requests wait for windows of any length, 24 hours.
	MaxWait time.Duration `yaml:"max_wait"`
	// MaxDebt bounds, in tokens, the debt from settling work that cost more than was
	// taken. If nil, the burst; zero is no debt.
	MaxDebt *int `yaml:"max_debt"`
	// OwnQuota lets requests bring a quota of their own, which counts for them instead of
	// the rate. If false, a rule with a rate forbids it, unless it is in Shadow mode.
	OwnQuota bool `yaml:"own_quota"`
	// Memory is for the counts of this rule alone, in bytes. If zero, the rule has an
	// equal share of what the others leave.
	Memory bytesize.Size `yaml:"memory"`

	// Concurrency bounds the leases held at once. If nil, there are none.
	Concurrency *Concurrency `yaml:"concurrency"`

	// Mode is Enforce if empty.
	Mode Mode `yaml:"mode"`
	// Away selects how weir serve decides while its --store or --upstream does not answer,
	// beyond the time for which it knows the state or has an assignment. If empty, as its
	// --store-away or --upstream-away says.
	Away Away `yaml:"away"`
	// Unassigned selects how weir serve --upstream decides about a key of which it has no
	// assignment yet. If empty, UnassignedAsk.
	Unassigned Unassigned `yaml:"unassigned"`
	// Candidate is a quota on trial: its decisions are counted, but have no effect. If
	// nil, there is none.
	Candidate *Quota `yaml:"candidate"`
}

// DefaultQueue is Rule.Queue where it is nil.
const DefaultQueue = 100

// DefaultMaxWait bounds waits where a rule does not, so that clients that never give
// up do not keep their places in queues for ever.
const DefaultMaxWait = time.Hour

// QueueSize returns a Queue, DefaultQueue if it is nil.
func QueueSize(queue *int) int {
	if queue == nil {
		return DefaultQueue
	}
	return *queue
}

// A Quota is a rate and the algorithm that enforces it.
type Quota struct {
	// Rate is a number of tokens per period. The zero Rate is none.
	Rate Rate `yaml:"rate"`
	// Burst is the capacity of a token bucket. If zero, Rate.Count. Windows have none.
	Burst int `yaml:"burst"`
	// Algorithm is GCRA if empty.
	Algorithm Algorithm `yaml:"algorithm"`
	// Zone is the time zone of Calendar windows, as a name of the IANA database. If empty,
	// UTC. Other algorithms have none.
	Zone string `yaml:"zone"`
}

// A Rate is Count tokens in each Period. The zero Rate is none; a Count of zero
// with a Period lets nothing pass. In text it is 100/s, 100/90s, 5/m, 1000/h,
// 10000/d, 50000/week or 200000/month.
type Rate struct {
	Count  int
	Period time.Duration // > 0. Month is a calendar month
}

// Algorithm enforces a rate.
type Algorithm string

const (
	GCRA    Algorithm = "gcra"    // a token bucket
	Fixed   Algorithm = "fixed"   // windows that begin with the first request of a key
	Sliding Algorithm = "sliding" // the last window fades out over the next
	// Calendar counts in the minutes, hours, days, weeks or months of the calendar in
	// Quota.Zone. A day begins when clocks there first show its date, and a week on Monday.
	Calendar Algorithm = "calendar"
	// FixedWindow counts as envoyproxy/ratelimit does, for its files alone: in windows
	// that begin at multiples of their length since 1970, and also requests that are
	// denied. A request without a cost is denied if more than the limit is counted.
	FixedWindow Algorithm = "fixed_window"
)

// Windows reports whether the Algorithm counts in windows rather than with a
// token bucket.
func (a Algorithm) Windows() bool { return a == Sliding || a.Resets() }

// Resets reports whether the Algorithm counts in windows that begin at zero.
func (a Algorithm) Resets() bool { return a == Fixed || a == FixedWindow || a == Calendar }

// Limit returns the most tokens that a key can have at once.
func (q Quota) Limit() int {
	if q.Burst > 0 && !q.Algorithm.Windows() {
		return q.Burst
	}
	return q.Rate.Count
}

// PerSecond returns the rate in tokens a second; 0 if there is none.
func (q Quota) PerSecond() float64 {
	if q.Rate.Period == 0 {
		return 0
	}
	return float64(q.Rate.Count) / q.Rate.Period.Seconds()
}

// Rated reports whether the rule has a rate.
func (r *Rule) Rated() bool { return r.Rate.Period > 0 }

// Per is the scope of a bucket.
type Per string

const (
	PerKey  Per = "key"
	PerRule Per = "rule"
)

// Mode is how a rule is applied.
type Mode string

const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // decide and count, but refuse nothing
	Off     Mode = "off"    // ignore the rule
)

// Away selects how requests are decided while the store or the upstream of the limits does not
// answer.
type Away string

const (
	AwayDeny  Away = "deny"
	AwayAllow Away = "allow"
	AwayShare Away = "share" // by the limit divided by the number of instances
)

// Unassigned selects how requests for a key without an assignment are decided.
type Unassigned string

const (
	UnassignedAsk   Unassigned = "ask"   // the upstream decides
	UnassignedShare Unassigned = "share" // by the limit divided by the number of leaves
	UnassignedDeny  Unassigned = "deny"
)

// A Concurrency bounds how many leases are held at once, in units.
type Concurrency struct {
	// Limit is a number of units, or Auto: 0. In text, a number or auto.
	Limit Limit `yaml:"limit"`
	// Min and Max bound an Auto limit. If zero, 1 and 1000.
	Min int `yaml:"min"`
	Max int `yaml:"max"`
	// Queue bounds the requests that wait for a lease. If nil, DefaultQueue; if zero,
	// no request waits.
	Queue *int `yaml:"queue"`
	// MaxWait bounds that wait. If zero, Complete sets DefaultMaxWait.
	MaxWait time.Duration `yaml:"max_wait"`
	// TTL is how long a lease lasts unless it is renewed, if the request does not set
	// it. If zero, DefaultTTL.
	TTL time.Duration `yaml:"ttl"`
	// MaxTTL bounds the TTL that a request sets. If zero, ten times TTL.
	MaxTTL time.Duration `yaml:"max_ttl"`
}

// DefaultTTL is Concurrency.TTL where it is zero.
const DefaultTTL = 30 * time.Second

// A Limit is a number of units, or Auto.
type Limit int

// Auto is a Limit that adapts to the load (package limit).
const Auto Limit = 0
