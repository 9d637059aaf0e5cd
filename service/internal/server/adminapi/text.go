package adminapi

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/weir-go/weir/service/internal/config"
)

// RuleText describes a rule in the terms of its file.
type RuleText struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"` // key, glob, regex, entries or descriptor
	Pattern   string `json:"pattern"`
	Per       string `json:"per"`             // key or rule: the scope of buckets and leases
	Quota     string `json:"quota,omitempty"` // such as "100/s burst 200"; empty without a rate
	Mode      string `json:"mode"`            // enforce or shadow
	Candidate string `json:"candidate,omitempty"`
}

func textOf(r *config.Rule) RuleText {
	t := RuleText{
		Name: r.Name, Quota: quota(r.Quota),
		Per: string(cmp.Or(r.Per, config.PerKey)), Mode: string(cmp.Or(r.Mode, config.Enforce)),
	}
	t.Kind, t.Pattern = r.Pattern()
	if r.Candidate != nil {
		t.Candidate = quota(*r.Candidate)
	}
	return t
}

// quota formats a quota; empty without a rate.
func quota(q config.Quota) string {
	if q.Rate.Period <= 0 {
		return ""
	}
	text := q.Rate.String()
	switch {
	case q.Algorithm.Windows():
		return text + " " + string(q.Algorithm)
	case q.Burst > 0 && q.Burst != q.Rate.Count:
		return text + " burst " + strconv.Itoa(q.Burst)
	}
	return text
}

// span formats a time for reading.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", (d+time.Millisecond-1)/time.Millisecond)
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", (d+time.Second-1)/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", (d+time.Minute-1)/time.Minute)
	default:
		return fmt.Sprintf("%d h", (d+time.Hour-1)/time.Hour)
	}
}
