package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/terminal"
)

type checkCmd struct {
	Path string   `arg:"" help:"The rules: a YAML file, a directory of such, or GoCC's JSON."`
	Keys []string `arg:"" optional:"" name:"key" help:"What do these get?"`
	JSON bool     `name:"json" help:"Tell it as JSON."`
}

// A checked is what the command tells.
type checked struct {
	Path   string       `json:"path"`
	Errors []string     `json:"errors,omitempty"` // all that is wrong; then there is nothing else
	Rules  int          `json:"rules"`
	Hash   string       `json:"hash,omitempty"`
	Keys   []checkedKey `json:"keys,omitempty"`
}

// A checkedKey is what a key gets.
type checkedKey struct {
	Key       string        `json:"key"`
	Rules     []checkedRule `json:"rules"`               // that count for it, in order
	Unmatched string        `json:"unmatched,omitempty"` // without rules: allow or deny
}

// A checkedRule is what a rule gives a key, with all defaults.
type checkedRule struct {
	Name        string          `json:"name"`
	Pattern     string          `json:"pattern"`
	Per         config.Per      `json:"per"`
	Mode        config.Mode     `json:"mode"`
	Quota       *checkedQuota   `json:"quota,omitempty"`
	Queue       int             `json:"queue,omitempty"`
	MaxWaitMS   int64           `json:"max_wait_ms,omitempty"` // 0: as long as the caller says
	Concurrency *checkedLeasing `json:"concurrency,omitempty"`
	Candidate   *checkedQuota   `json:"candidate,omitempty"`
}

type checkedQuota struct {
	Rate      string           `json:"rate"`
	Burst     int              `json:"burst"` // the most at once
	Algorithm config.Algorithm `json:"algorithm"`
}

type checkedLeasing struct {
	Limit string `json:"limit"` // a number, or auto
	Queue int    `json:"queue"`
	TTLMS int64  `json:"ttl_ms"`
}

// Run tells what is wrong with the files or, if nothing is, what keys get.
func (c *checkCmd) Run(std streams) error {
	told, err := c.tell()
	if c.JSON {
		out := json.NewEncoder(std.Out)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		if failed := out.Encode(told); failed != nil {
			return failed
		}
		if err != nil {
			return fmt.Errorf("%s: %d errors", c.Path, len(told.Errors))
		}
		return nil
	}
	if err != nil {
		return err
	}
	return told.print(std.Out)
}

// Validate is for package kong.
func (c *checkCmd) Validate() error {
	for _, key := range c.Keys {
		if !server.IsKey(strings.TrimSpace(key)) {
			return usagef("%q is no key: one is not empty, UTF-8, and without control characters", key)
		}
	}
	return nil
}

func (c *checkCmd) tell() (checked, error) {
	told := checked{Path: c.Path}
	rules, err := config.Load(c.Path)
	var s *server.Server
	if err == nil {
		s, err = server.New(server.Config{Rules: rules})
	}
	if err != nil {
		told.Errors = strings.Split(err.Error(), "\n")
		return told, err
	}
	told.Rules, told.Hash = len(rules.Rules), rules.Hash
	for _, key := range c.Keys {
		told.Keys = append(told.Keys, checkKey(s, strings.TrimSpace(key)))
	}
	return told, nil
}

func checkKey(s *server.Server, key string) checkedKey {
	k := checkedKey{Key: key, Rules: []checkedRule{}}
	for _, state := range s.Explain(key).Rules {
		k.Rules = append(k.Rules, checkRule(state.Rule))
	}
	if len(k.Rules) == 0 {
		k.Unmatched = cmp.Or(s.Rules().Unmatched, "allow")
	}
	return k
}

func checkRule(r *server.Rule) checkedRule {
	told := checkedRule{
		Name: r.Name, Pattern: "key " + strconv.Quote(r.Key), Per: cmp.Or(r.Per, config.PerKey), Mode: cmp.Or(r.Mode, config.Enforce),
	}
	switch {
	case r.Glob != "":
		told.Pattern = "glob " + strconv.Quote(r.Glob)
	case r.Regex != "":
		told.Pattern = "regex " + strconv.Quote(r.Regex)
	}
	if r.Quoted() {
		told.Quota = checkQuota(r.Quota)
		told.Queue = orElse(r.Queue, config.DefaultQueue)
		told.MaxWaitMS = r.MaxWait.Milliseconds()
	}
	if l := r.Concurrency; l != nil {
		told.Concurrency = &checkedLeasing{l.Limit.String(), orElse(l.Queue, config.DefaultQueue), cmp.Or(l.TTL, config.DefaultTTL).Milliseconds()}
	}
	if r.Candidate != nil {
		told.Candidate = checkQuota(*r.Candidate)
	}
	return told
}

func checkQuota(q config.Quota) *checkedQuota {
	return &checkedQuota{q.Rate.String(), cmp.Or(q.Burst, q.Rate.Count), cmp.Or(q.Algorithm, config.GCRA)}
}

// print writes it for people.
func (told *checked) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d rules, hash %s\n", told.Path, told.Rules, told.Hash)
	for _, k := range told.Keys {
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

// text is a rule in one line.
func (r *checkedRule) text() string {
	all := []string{fmt.Sprintf("%s (%s): ", r.Name, r.Pattern)}
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if q := r.Quota; q != nil {
		add("%s, %d at once (%s), %d may wait", q.Rate, q.Burst, q.Algorithm, r.Queue)
		if r.MaxWaitMS > 0 {
			add(", %d ms at most", r.MaxWaitMS)
		}
	}
	if l := r.Concurrency; l != nil {
		if r.Quota != nil {
			add("; ")
		}
		add("%s leases at once for %d ms each, %d may wait", l.Limit, l.TTLMS, l.Queue)
	}
	if r.Per == config.PerRule {
		add("; for all keys together")
	}
	if r.Mode != config.Enforce {
		add("; mode %s", r.Mode)
	}
	if q := r.Candidate; q != nil {
		add("; candidate %s, %d at once (%s)", q.Rate, q.Burst, q.Algorithm)
	}
	return strings.Join(all, "")
}
