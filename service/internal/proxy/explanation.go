package proxy

import "github.com/weir-go/weir/service/internal/settings"

// An Explanation says what the proxy would do with a request now. The request takes no
// token and no unit, and does not go to the origin.
type Explanation struct {
	// Verdict is one of forward, cache, wait, deny, reject and too_large.
	Verdict string `json:"verdict"`
	Status  int    `json:"status,omitempty"` // of the proxy's own answer; 0 if the origin answers
	Words   string `json:"words"`            // the verdict as a sentence

	Class ExplainedClass  `json:"class"`
	Rules []ExplainedRule `json:"rules"` // that match, in the order of the file
}

// An ExplainedClass is the class of a request, and the state of its limit.
type ExplainedClass struct {
	Name     string            `json:"name"`
	Route    string            `json:"route,omitempty"` // the pattern that matches; none for the class default
	Mode     string            `json:"mode"`
	LimitOf  string            `json:"limit_of"` // the class whose limit counts
	Limit    int               `json:"limit"`
	Inflight int               `json:"inflight"`
	Waiting  int               `json:"waiting"`
	Queue    int               `json:"queue"`
	Priority string            `json:"priority"`
	Tenant   string            `json:"tenant,omitempty"`
	Deadline settings.Duration `json:"deadline"` // 0: none
	MaxBody  int64             `json:"max_body"` // bytes; -1: no bound
	Words    string            `json:"words"`
}

// An ExplainedRule is a rate limit that counts for a request.
type ExplainedRule struct {
	Name    string `json:"name"`
	By      string `json:"by,omitempty"`  // the source that gives the key; none: one bucket
	Key     string `json:"key,omitempty"` // what it gives
	Mode    string `json:"mode"`
	Rate    string `json:"rate"`
	Burst   int    `json:"burst"`
	Allowed bool   `json:"allowed"` // one token is available

	Remaining    int   `json:"remaining"`
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"` // until a token is available
	ResetAfterMS int64 `json:"reset_after_ms"`           // until all are

	Words string `json:"words"`
}

// An OriginReport describes an origin. Counts are since the start.
type OriginReport struct {
	URL      string            `json:"url"`
	State    string            `json:"state"` // in, starting, ejected or held
	Inflight int               `json:"inflight"`
	UntilMS  int64             `json:"until_ms,omitempty"` // the end of an ejection or a hold, since 1970
	Retried  uint64            `json:"retried"`            // requests that went to another origin
	Answers  map[string]uint64 `json:"answers"`            // and missing ones, by sign of load
}
