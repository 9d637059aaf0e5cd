package proxy

import (
	"time"

	"github.com/weir-go/weir/service/internal/settings"
)

// A Report is the answer to GET /-/status: the state of the proxy, of each class and of
// each rule. Counts are since the start. Counts of a class or a rule survive a reload if
// it keeps its name.
type Report struct {
	Status
	Mode        string `json:"mode"` // enforce or shadow
	Abandoned   int    `json:"abandoned"`
	Connections int    `json:"connections"`

	File    *FileReport   `json:"file,omitempty"` // of rules; none without one
	Classes []ClassReport `json:"classes"`        // the class default is the last one
	Rules   []RuleReport  `json:"rules"`          // in the order of the file
	Total   *LimitReport  `json:"total,omitempty"`

	Origins []OriginReport `json:"origins,omitempty"`
}

// A FileReport describes the file of rules and its loads.
type FileReport struct {
	Path     string     `json:"path"`
	Hash     string     `json:"hash"`             // of the content in force: 12 hexadecimal digits
	Loaded   time.Time  `json:"loaded"`           // the last load that succeeded
	Change   string     `json:"change,omitempty"` // what it has changed
	Error    string     `json:"error,omitempty"`  // of the last load, if that failed
	Failed   *time.Time `json:"failed,omitempty"` // the last load that failed
	Reloads  uint64     `json:"reloads"`          // that succeeded
	Failures uint64     `json:"failures"`
}

// A LimitReport describes a limit on requests in flight, and its queue.
type LimitReport struct {
	Limit    Limit             `json:"limit"` // as set
	LimitNow int               `json:"limit_now"`
	Inflight int               `json:"inflight"`
	Waiting  int               `json:"waiting"`
	Queue    int               `json:"queue"`    // 0: none waits
	MaxWait  settings.Duration `json:"max_wait"` // 0: as long as the client waits
	UsualMS  float64           `json:"usual_ms"` // upper bound of the duration of ordinary work; 0: not known

	Admitted  uint64            `json:"admitted"`
	Cancelled uint64            `json:"cancelled"` // the client left the queue
	Rejected  map[string]uint64 `json:"rejected"`  // by reason
	Outcomes  map[string]uint64 `json:"outcomes"`  // of requests that have ended, by outcome
}

// A ClassReport describes a class of routes. A class without a limit shares that of the
// class default; its counts are its own.
type ClassReport struct {
	Name     string            `json:"name"`
	Routes   []string          `json:"routes,omitempty"`
	Mode     string            `json:"mode"`            // enforce or shadow
	Own      bool              `json:"own"`             // it has a limit of its own
	Limit    *LimitReport      `json:"limit,omitempty"` // nil if not Own
	Timeout  settings.Duration `json:"timeout"`         // 0: none
	Deadline settings.Duration `json:"deadline"`        // 0: none
	MaxBody  int64             `json:"max_body"`        // bytes; -1: no bound
	Priority string            `json:"priority"`

	Requests    uint64            `json:"requests"`     // that arrived, also those that rules denied
	Denied      uint64            `json:"denied"`       // by rules
	Rejected    map[string]uint64 `json:"rejected"`     // by the limit, by reason, and too_large
	WouldReject map[string]uint64 `json:"would_reject"` // let through in shadow mode, by reason
	Cache       *CacheReport      `json:"cache,omitempty"`
}

// A CacheReport counts what the cache of a class did.
type CacheReport struct {
	Hits      uint64 `json:"hits"`
	Stale     uint64 `json:"stale"`
	Filled    uint64 `json:"filled"` // answered by the origin, and kept if it may be
	Coalesced uint64 `json:"coalesced"`
	Failed    uint64 `json:"failed"`
	Passed    uint64 `json:"passed"`
	Rejected  uint64 `json:"rejected"`
	Entries   int    `json:"entries"`
	Bytes     int64  `json:"bytes"`
}

// A RuleReport describes a rate limit.
type RuleReport struct {
	Name   string   `json:"name"`
	By     []string `json:"by,omitempty"` // sources of the key; none: one bucket
	Rate   string   `json:"rate"`
	Burst  int      `json:"burst"`
	Routes []string `json:"routes,omitempty"`
	Except []string `json:"except,omitempty"`
	Mode   string   `json:"mode"` // enforce or shadow

	Allowed   uint64 `json:"allowed"`
	Denied    uint64 `json:"denied"`
	WouldDeny uint64 `json:"would_deny"` // let through in shadow mode
}
