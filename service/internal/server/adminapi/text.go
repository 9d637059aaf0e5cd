package adminapi

import (
	"cmp"
	"strconv"

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
	case q.Algorithm == config.Calendar:
		return strconv.Itoa(q.Rate.Count) + "/" + q.Unit() + " calendar " + q.ZoneName()
	case q.Algorithm.Windows():
		return text + " " + string(q.Algorithm)
	case q.Burst > 0 && q.Burst != q.Rate.Count:
		return text + " burst " + strconv.Itoa(q.Burst)
	}
	return text
}
