package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// A Report has the results of a run. Rates are per second of the time during which
// requests were sent.
type Report struct {
	Target string    `json:"target,omitempty"`
	Load   string    `json:"load,omitempty"` // how the requests were sent
	Began  time.Time `json:"began"`

	Elapsed     float64        `json:"elapsed_seconds"` // time during which requests were sent
	Requests    int            `json:"requests"`        // including unsent ones
	Succeeded   int            `json:"succeeded"`
	Failed      int            `json:"failed"` // neither succeeded nor canceled
	FailedShare float64        `json:"failed_share"`
	Offered     float64        `json:"offered_rps"`
	Throughput  float64        `json:"throughput_rps"` // answered with success
	Goodput     float64        `json:"goodput_rps"`    // the same, within the time-out from the intended start
	ByStatus    map[string]int `json:"by_status"`
	ByClass     map[string]int `json:"by_class"` // 2xx, 3xx, …, error without an answer, sent, unsent, canceled
	Traffic     Traffic        `json:"traffic"`

	// Latency is from the intended start. Rejections have status 429 or 503. A group
	// without requests is nil.
	Latency struct {
		All        *Latency `json:"all"`
		Successes  *Latency `json:"successes"`
		Rejections *Latency `json:"rejections"`
	} `json:"latency_seconds"`
	// SendDelay is from the intended start to the actual one: how late the client was.
	SendDelay *Latency `json:"send_delay_seconds"`
	Series    []Slot   `json:"series"`
}

// Traffic counts the connections of a run and their bytes.
type Traffic struct {
	Connections int64 `json:"connections"`
	Sent        int64 `json:"sent_bytes"` // with the headers, and with TLS as encrypted
	Received    int64 `json:"received_bytes"`
}

// MaxBytes bounds a file with a Report.
const MaxBytes = 64 << 20

// Write writes the report as JSON.
func (r Report) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

// Parse reads a report that Write has written.
func Parse(data []byte) (r Report, err error) {
	if len(data) > MaxBytes {
		return r, fmt.Errorf("it has more than %d bytes", MaxBytes)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("it is not a report of weirlab load: %w", err)
	}
	if r.Latency.All == nil || r.Requests <= 0 {
		return r, errors.New("it is not a report of weirlab load, or one without requests: want the output of --json, or a file of --report")
	}
	if len(r.Series) > maxSlots {
		return r, fmt.Errorf("series: %d slots: must be at most %d", len(r.Series), maxSlots)
	}
	for i, s := range r.Series {
		if err := s.validate(); err != nil {
			return r, fmt.Errorf("series[%d]: %w", i, err)
		}
	}
	for name, l := range map[string]*Latency{"all": r.Latency.All, "successes": r.Latency.Successes, "rejections": r.Latency.Rejections, "send_delay": r.SendDelay} {
		if l == nil {
			continue
		}
		if err := l.decode(); err != nil {
			return r, fmt.Errorf("latency of %s: %w", name, err)
		}
	}
	return r, nil
}

// answered returns the latencies to show first: those of the successes, or of all requests
// if none succeeded.
func (r Report) answered() (l *Latency, name string) {
	if r.Latency.Successes != nil {
		return r.Latency.Successes, "successes"
	}
	return r.Latency.All, "all requests"
}
