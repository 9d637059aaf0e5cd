package proxy

// An OriginReport describes an origin. Counts are since the start.
type OriginReport struct {
	URL      string            `json:"url"`
	State    string            `json:"state"` // in, starting, ejected or held
	Inflight int               `json:"inflight"`
	UntilMS  int64             `json:"until_ms,omitempty"` // the end of an ejection or a hold, since 1970
	Retried  uint64            `json:"retried"`            // requests that went to another origin
	Answers  map[string]uint64 `json:"answers"`            // and missing ones, by sign of load
}
