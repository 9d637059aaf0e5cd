package proxy

import "github.com/weir-go/weir/internal/loadsign"

// An OriginReport describes an origin. Counts are since the start.
type OriginReport struct {
	URL      string            `json:"url"`
	State    string            `json:"state"`           // in, starting, ejected or held
	Cause    string            `json:"cause,omitempty"` // of an ejection: failures, connections, silence or check
	Limit    int               `json:"limit,omitempty"` // the sum of its adaptive limits; 0: it has none of its own
	Inflight int               `json:"inflight"`
	UntilMS  int64             `json:"until_ms,omitempty"` // the next trial of an ejected origin, or the end of a hold, since 1970
	Retried  uint64            `json:"retried"`            // requests that went to another origin, because this one did not answer
	Answers  map[string]uint64 `json:"answers"`            // and missing ones, by sign of load
}

func (o *OriginStats) report() OriginReport {
	r := OriginReport{URL: o.URL, State: o.State.String(), Cause: o.Cause.String(), Limit: o.Limit, Inflight: o.Inflight, Retried: o.Retried, Answers: map[string]uint64{}}
	if !o.Until.IsZero() {
		r.UntilMS = o.Until.UnixMilli()
	}
	for sign, n := range o.Signs {
		if n > 0 {
			r.Answers[loadsign.Sign(sign).String()] = n
		}
	}
	return r
}
