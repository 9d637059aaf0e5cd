package adminapi

import (
	"cmp"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
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

func textOf(r *decider.RuleRef) RuleText {
	return RuleText{
		Name: r.Name, Kind: r.Kind, Pattern: r.Pattern, Quota: r.Text, Candidate: r.Trial,
		Per: cmp.Or(r.Per, string(config.PerKey)), Mode: cmp.Or(r.Mode, string(config.Enforce)),
	}
}
