// Package proxyrule reads the file of rules of weir proxy: rate limits, classes of
// routes with limits of their own, priorities, tenants and deadlines.
//
//	mode: enforce                     # or shadow: decide and count, but change no request
//	rules:
//	  - name: clients
//	    by: [header X-Api-Key, address]    # the first one that a request has
//	    rate: 100/m
//	    burst: 20
//	  - name: logins
//	    by: address
//	    rate: 5/m
//	    routes: ["POST /login"]
//	  - name: in-flight
//	    by: address
//	    limit: 10                     # requests of a client at once
//	classes:
//	  - name: reports
//	    routes: ["/reports/", "GET /export/{id}"]
//	    limit: 5                      # or auto, aimd, vegas, gradient2
//	    queue: 20
//	    max_wait: 2s
//	    timeout: 60s
//	    max_body: 64KiB
//	    priority: sheddable
//	    cache: {ttl: 10s, stale: 1m}
//	total: {limit: 100}               # of all classes together
//	max_pressure: 0.4                 # shed while work waits for the processor
//	health_path: /healthz             # of origins, every
//	health_interval: 5s
//	priority: {header: X-Priority, trust: [10.0.0.0/8]}
//	tenants: {by: header X-Api-Key, weights: {acme: 3}}
//	deadline: {header: grpc-timeout}
//
// Load reads such a file, and reports all errors in it with their places.
package proxyrule

import (
	"time"

	"github.com/weir-go/weir/service/internal/bytesize"
	"github.com/weir-go/weir/service/internal/config"
)

// Rules is the content of a file.
type Rules struct {
	// Mode is Enforce if empty. Shadow also applies to the limits of flags.
	Mode Mode `yaml:"mode"`
	// MaxPressure is the share of the time in which work may wait for the processor, below 1;
	// 0 is no bound. If nil, that of the flag.
	MaxPressure *float64 `yaml:"max_pressure"`
	// HealthPath is the path of health checks of origins; empty: none. HealthInterval is the time between two
	// checks of an origin. If nil, those of the flags.
	HealthPath     *string        `yaml:"health_path"`
	HealthInterval *time.Duration `yaml:"health_interval"`
	// Fields selects the header fields that tell clients their rate limits. If empty,
	// FieldsDraft.
	Fields Fields `yaml:"fields"`
	// Rules are the limits of clients. A request takes a token, or a unit, of each rule that
	// matches it, or of none.
	Rules []Rule `yaml:"rules"`
	// Classes are the classes of routes. The most specific pattern decides.
	Classes []Class `yaml:"classes"`
	// Default is the class of all other requests. Name and Routes are empty. Fields that
	// it leaves out come from flags.
	Default *Class `yaml:"default"`
	// Total bounds the requests in flight of all classes together. If nil, there is no
	// such bound.
	Total *Concurrency `yaml:"total"`

	Priority *Priority `yaml:"priority"`
	Tenants  *Tenants  `yaml:"tenants"`
	Deadline *Deadline `yaml:"deadline"`

	// Hash identifies the content, with 12 hexadecimal digits.
	Hash string `yaml:"-"`
	// Warnings are about the rates and limits that reject all of their requests, with their places.
	Warnings []string `yaml:"-"`
}

// Mode is how limits are applied.
type Mode string

// The Modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow" // decide and count, but change no request
)

// Fields selects header fields of responses.
type Fields string

// The Fields.
const (
	FieldsDraft Fields = "draft"   // RateLimit-Policy and RateLimit
	FieldsDelta Fields = "x"       // X-RateLimit-Limit, -Remaining and -Reset in seconds
	FieldsUnix  Fields = "x_unix"  // the same, with the time of the reset since 1970
	FieldsBoth  Fields = "draft_x" // FieldsDraft and FieldsDelta
	FieldsNone  Fields = "none"
	FieldsNext  Fields = "draft_next" // FieldsDraft with other names of parameters
)

// Texts is a list of texts. In a file, a single one needs no list.
type Texts []string

// A Rule is a limit of each key: a rate, with a token bucket, or a number of requests in flight.
type Rule struct {
	// Name identifies the rule in answers, metrics and logs: 1 to 64 characters of
	// printable ASCII without " and \, unique among the rules.
	Name string `yaml:"name"`
	// By lists sources of the key. The first one that a request has gives the
	// key. Requests without any share a limit. If empty, all requests share one.
	By Keys `yaml:"by"`
	// Rate is the number of tokens per period, and Burst the capacity of a bucket. If
	// Burst is zero, it is the count of the Rate. They are zero if there is a Limit.
	Rate  config.Rate `yaml:"rate"`
	Burst int         `yaml:"burst"`
	// Limit is the number of requests of a key that may be in flight. If zero, the rule has a
	// Rate.
	Limit int `yaml:"limit"`
	// MaxWait bounds the wait for a token. If zero, no request waits.
	MaxWait time.Duration `yaml:"max_wait"`
	// Routes are the patterns of the requests that the rule matches. If empty, it matches
	// all. Except are patterns of requests that it does not match.
	Routes Texts `yaml:"routes"`
	Except Texts `yaml:"except"`
	// Memory bounds the memory for keys, in bytes. If zero, DefaultMemory.
	Memory bytesize.Size `yaml:"memory"`
	// Mode is Enforce if empty.
	Mode Mode `yaml:"mode"`
}

// DefaultMemory is Rule.Memory where it is zero.
const DefaultMemory = 16 << 20

// A Concurrency bounds requests in flight. A field that is nil or zero comes from the
// flag of that name.
type Concurrency struct {
	Limit             *Limit         `yaml:"limit"`
	InitialLimit      int            `yaml:"initial_limit"`
	MinLimit          int            `yaml:"min_limit"`
	MaxLimit          int            `yaml:"max_limit"`
	MaxHealthyLatency time.Duration  `yaml:"max_healthy_latency"`
	SlowStart         *time.Duration `yaml:"slow_start"` // idle time; 0: none
	Queue             *int           `yaml:"queue"`      // 0: none waits
	MaxWait           *time.Duration `yaml:"max_wait"`   // 0: as long as the client waits
}

// A Class is a set of routes. If it has a Limit, its requests have a limit and a queue
// apart from the other classes. Otherwise they share those of the default class.
type Class struct {
	// Name identifies the class in metrics and logs, as Rule.Name does.
	Name string `yaml:"name"`
	// Routes are the patterns of its requests, as in http.ServeMux.
	Routes      Texts `yaml:"routes"`
	Concurrency `yaml:",inline"`
	// Timeout bounds the wait for the header of the origin's answer. If nil, that of the
	// flag; zero is no bound.
	Timeout *time.Duration `yaml:"timeout"`
	// Deadline bounds the time from the request to the end of the answer, the wait in
	// queues included. If zero, there is no bound.
	Deadline time.Duration `yaml:"deadline"`
	// MaxBody bounds the body of a request, in bytes. If nil, that of the flag; zero is no
	// bound.
	MaxBody *bytesize.Size `yaml:"max_body"`
	// Priority is the priority of its requests. If zero, Critical.
	Priority Level `yaml:"priority"`
	// Cache keeps responses. If nil, there is none.
	Cache *Cache `yaml:"cache"`
	// Mode is Enforce if empty.
	Mode Mode `yaml:"mode"`
}

// DefaultClass is the name of the class of requests that no route matches, and TotalName
// that of the limit of all classes.
const (
	DefaultClass = "default"
	TotalName    = "total"
)

// A Cache keeps responses in front of the limit (package httpcache).
type Cache struct {
	TTL             time.Duration `yaml:"ttl"`               // of responses that do not tell theirs
	Stale           time.Duration `yaml:"stale"`             // an old response is served while a new one is made
	StaleIfError    time.Duration `yaml:"stale_if_error"`    // and if the origin fails
	StaleIfRejected time.Duration `yaml:"stale_if_rejected"` // and if the limit rejects
	Memory          bytesize.Size `yaml:"memory"`            // if zero, 64 MiB
	MaxBody         bytesize.Size `yaml:"max_body"`          // if zero, 1 MiB
	IgnoreCookies   bool          `yaml:"ignore_cookies"`
	// Vary names request headers that select a response. If nil, the ones that Rule.By and
	// Tenants.By name.
	Vary Texts `yaml:"vary"`
}

// Priority takes the priority of a request from a header.
type Priority struct {
	Header string `yaml:"header"`
	// Levels maps values of the header to priorities. If nil, the values are their names.
	Levels map[string]Level `yaml:"levels"`
	// Trust holds networks of clients, or unix for the clients at a Unix socket. Their header may raise the priority above the one
	// of the class. The header of any other client can only lower it.
	Trust Networks `yaml:"trust"`
}

// Tenants share limits fairly: in each queue, and by their weights.
type Tenants struct {
	// By lists sources of the tenant of a request, as Rule.By does.
	By Keys `yaml:"by"`
	// Weights are the shares of single tenants. All others have 1.
	Weights map[string]int `yaml:"weights"`
}

// Deadline takes the deadline of a request from a header.
type Deadline struct {
	// Header has the time that the client waits: milliseconds, or a number with a unit
	// as in 1.5s; for grpc-timeout, digits and a unit of gRPC.
	Header string `yaml:"header"`
	// Max bounds that time. If zero, there is no bound.
	Max time.Duration `yaml:"max"`
}
