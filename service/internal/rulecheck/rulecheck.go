// Package rulecheck checks files of rules, and tells which limits a key gets, and what the rules would have done with recorded
// requests.
package rulecheck

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/terminal"
)

// A Report is the result of checking a file of rules.
type Report struct {
	Path   string   `json:"path"`
	Errors []string `json:"errors,omitempty"` // the mistakes; if there are any, the other fields are empty
	Rules  int      `json:"rules"`
	Hash   string   `json:"hash,omitempty"`
	// Warnings are about rules that no request can reach, 20 at most; More is how many are left out.
	Warnings []string `json:"warnings,omitempty"`
	More     int      `json:"more_warnings,omitempty"`
	Keys     []Key    `json:"keys,omitempty"`
	// Fleet has the rules that say how an instance decides without an upstream, a store or a peer.
	Fleet []Fleet `json:"fleet,omitempty"`
}

// A Fleet says how instances of a fleet decide under a rule. Fields are empty where it does not say.
type Fleet struct {
	Rule       string            `json:"rule,omitempty"`
	Unassigned config.Unassigned `json:"unassigned,omitempty"` // by a leaf without an assignment
	Away       config.Away       `json:"away,omitempty"`       // while the process that decides does not answer
}

// A Key is a key with the rules that apply to it.
type Key struct {
	Key       string `json:"key"`
	Rules     []Rule `json:"rules"`               // in the order of the file
	Unmatched string `json:"unmatched,omitempty"` // without rules: allow or deny
}

// A Rule has the limits of a rule, defaults included.
type Rule struct {
	Name        string       `json:"name"`
	Pattern     string       `json:"pattern"`
	Per         config.Per   `json:"per"`
	Shared      []string     `json:"shared,omitempty"` // patterns with values that share a bucket
	Mode        config.Mode  `json:"mode"`
	QuotaMode   bool         `json:"quota_mode,omitempty"` // see config.Descriptor
	Quota       *Quota       `json:"quota,omitempty"`
	Queue       int          `json:"queue,omitempty"`
	MaxWaitMS   int64        `json:"max_wait_ms,omitempty"` // 0: the caller decides
	Concurrency *Concurrency `json:"concurrency,omitempty"`
	Candidate   *Quota       `json:"candidate,omitempty"`
	Unlimited   bool         `json:"unlimited,omitempty"`
	Fleet
	ReplacedBy string `json:"replaced_by,omitempty"` // the rule of another of the keys, if both are descriptors of a request
}

// A Quota is a rate limit.
type Quota struct {
	Rate      string           `json:"rate"`
	Burst     int              `json:"burst"` // the most requests at once
	Algorithm config.Algorithm `json:"algorithm"`
	Unit      string           `json:"unit,omitempty"` // of calendar windows, as the following fields
	Zone      string           `json:"zone,omitempty"`
	Next      *time.Time       `json:"next_window,omitempty"` // when the next window begins
}

// A Concurrency is a limit of leases.
type Concurrency struct {
	Limit string `json:"limit"` // a number, or auto
	Queue int    `json:"queue"`
	TTLMS int64  `json:"ttl_ms"`
}

// Load checks the rules in a file or directory, for a server with a Config, and looks keys up.
// If the rules have mistakes, it returns the error, and a Report that lists them.
func Load(path string, cfg server.Config, o config.RateLimitOptions, keys []string) (Report, error) {
	report := Report{Path: path}
	file, place, err := config.LoadPlaced(path, o)
	var set *rules.Set
	if err == nil {
		cfg.Rules = file
		if _, err = server.New(cfg); err == nil {
			set, err = rules.Compile(file, nil)
		}
	}
	if err != nil {
		report.Errors = strings.Split(err.Error(), "\n")
		return report, err
	}
	report.Rules, report.Hash = len(file.Rules), file.Hash
	if err := report.warn(file, place); err != nil {
		return report, err
	}
	for _, key := range keys {
		report.Keys = append(report.Keys, lookUp(set, key))
	}
	report.replace(file)
	for i := range file.Rules {
		if f := fleet(&file.Rules[i]); f != (Fleet{}) {
			f.Rule = file.Rules[i].Name
			report.Fleet = append(report.Fleet, f)
		}
	}
	return report, nil
}

// replace notes which rules of the keys replace others, if the keys are descriptors of one
// request.
func (report *Report) replace(rules *config.Rules) {
	by, names := map[string]string{}, map[string]string{} // the rule that replaces a name; the name of a rule
	for i := range rules.Rules {
		r := &rules.Rules[i]
		if r.Descriptor == nil {
			return
		}
		names[r.Name] = r.Descriptor.Name
		for _, key := range report.Keys {
			if len(key.Rules) > 0 && key.Rules[0].Name == r.Name {
				for _, name := range r.Descriptor.Replaces {
					by[name] = r.Name
				}
			}
		}
	}
	for _, key := range report.Keys {
		if len(key.Rules) > 0 && names[key.Rules[0].Name] != "" {
			key.Rules[0].ReplacedBy = by[names[key.Rules[0].Name]]
		}
	}
}

func lookUp(set *rules.Set, key string) Key {
	k := Key{Key: key, Rules: []Rule{}}
	for _, r := range set.Find(key).List {
		k.Rules = append(k.Rules, describe(&r.Rule))
	}
	if len(k.Rules) == 0 {
		k.Unmatched = cmp.Or(set.Config.Unmatched, "allow")
	}
	return k
}

func describe(r *config.Rule) Rule {
	kind, pattern := r.Pattern()
	report := Rule{
		Name: r.Name, Pattern: kind + " " + strconv.Quote(pattern), Per: cmp.Or(r.Per, config.PerKey), Mode: cmp.Or(r.Mode, config.Enforce),
	}
	report.Fleet = fleet(r)
	if d := r.Descriptor; d != nil {
		report.Unlimited, report.QuotaMode = d.Unlimited, d.Quota && !d.Shadow
		for _, share := range d.Shares {
			if share != "" {
				report.Shared = append(report.Shared, share)
			}
		}
	}
	if r.Rated() {
		report.Quota = describeQuota(&r.Quota)
		report.Queue = *cmp.Or(r.Queue, new(config.DefaultQueue))
		report.MaxWaitMS = r.MaxWait.Milliseconds()
	}
	if l := r.Concurrency; l != nil {
		queue, ttl := *cmp.Or(l.Queue, new(config.DefaultQueue)), cmp.Or(l.TTL, config.DefaultTTL)
		report.Concurrency = &Concurrency{l.Limit.String(), queue, ttl.Milliseconds()}
	}
	if r.Candidate != nil {
		report.Candidate = describeQuota(r.Candidate)
	}
	return report
}

func fleet(r *config.Rule) Fleet { return Fleet{Unassigned: r.Unassigned, Away: r.Away} }

// text returns what a rule says, as a list.
func (f Fleet) text() string {
	var all []string
	if f.Unassigned != "" {
		all = append(all, "unassigned: "+string(f.Unassigned))
	}
	if f.Away != "" {
		all = append(all, "away: "+string(f.Away))
	}
	return strings.Join(all, ", ")
}

func describeQuota(q *config.Quota) *Quota {
	d := &Quota{Rate: q.Rate.String(), Burst: cmp.Or(q.Burst, q.Rate.Count), Algorithm: cmp.Or(q.Algorithm, config.GCRA), Unit: q.Unit(), Zone: q.ZoneName()}
	if d.Unit != "" {
		d.Next = new(q.NextWindow(time.Now()))
	}
	return d
}

// text returns a quota as a part of a line.
func (q *Quota) text() string {
	if q.Next != nil {
		return fmt.Sprintf("%s in each calendar %s in %s, the next begins at %s", thousands(q.Burst), q.Unit, q.Zone, q.Next.Format(time.RFC3339))
	}
	return fmt.Sprintf("%s, %d at once (%s)", q.Rate, q.Burst, q.Algorithm)
}

// thousands formats a number >= 0 as 1,000.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// maxFleet bounds the rules that Print lists without keys.
const maxFleet = 20

// Print writes the report as text. Without keys, it lists the rules that say how instances of a fleet decide.
func (report *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d rules, hash %s\n", report.Path, report.Rules, report.Hash)
	for _, warning := range report.Warnings {
		fmt.Fprintf(&b, "%s\n", warning)
	}
	if report.More > 0 {
		fmt.Fprintf(&b, "%d more warnings\n", report.More)
	}
	if len(report.Keys) == 0 {
		for _, f := range report.Fleet[:min(len(report.Fleet), maxFleet)] {
			fmt.Fprintf(&b, "  %s: %s\n", f.Rule, f.text())
		}
		if more := len(report.Fleet) - maxFleet; more > 0 {
			fmt.Fprintf(&b, "  and %d more rules with unassigned or away: see --json\n", more)
		}
	}
	for _, k := range report.Keys {
		fmt.Fprintf(&b, "\n%s\n", terminal.Escape(k.Key))
		if len(k.Rules) == 0 {
			fmt.Fprintf(&b, "  no rule matches: %s\n", k.Unmatched)
		}
		for i := range k.Rules {
			b.WriteString("  " + k.Rules[i].text() + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// text returns a rule as one line.
func (r *Rule) text() string {
	all := []string{fmt.Sprintf("%s (%s): ", r.Name, r.Pattern)}
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if q := r.Quota; q != nil {
		add("%s, %d may wait", q.text(), r.Queue)
		if r.MaxWaitMS > 0 {
			add(", for at most %s", config.Span(time.Duration(r.MaxWaitMS)*time.Millisecond))
		}
	}
	if l := r.Concurrency; l != nil {
		if r.Quota != nil {
			add("; ")
		}
		add("%s leases at once for %s each, %d may wait", l.Limit, config.Span(time.Duration(l.TTLMS)*time.Millisecond), l.Queue)
	}
	if r.Unlimited {
		add("unlimited")
	} else if r.Per == config.PerRule {
		add("; shared by all keys")
	} else if len(r.Shared) > 0 {
		add("; shared by all values of %s", strings.Join(r.Shared, " and "))
	}
	switch {
	case r.QuotaMode:
		add("; quota_mode: denies a request only together with all its quotas")
	case r.Mode != config.Enforce:
		add("; mode %s", r.Mode)
	}
	if r.ReplacedBy != "" {
		add("; replaced by %s in a request with both", r.ReplacedBy)
	}
	if text := r.Fleet.text(); text != "" {
		add("; %s", text)
	}
	if q := r.Candidate; q != nil {
		add("; candidate %s", q.text())
	}
	return strings.Join(all, "")
}
