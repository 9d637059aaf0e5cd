package config

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"strconv"
	"time"

	"github.com/weir-go/weir/service/internal/inputfile"
	"github.com/weir-go/weir/service/internal/rulefile"
	"github.com/weir-go/weir/service/internal/strictyaml"
)

// goccMaxWait bounds waits where GoCC does not. A wait lasts for some windows, and
// windows of hours are in use.
const goccMaxWait = 24 * time.Hour

// GoCCDefaults are the flags of GoCC: the values of fields that its file leaves out.
type GoCCDefaults struct {
	MaxRequests        *int      `least:"1" short:"m" env:"WEIR_MAX_REQUESTS,MAX_REQUESTS" placeholder:"N" help:"Without --rules: requests per key and window (100)."`
	WindowMillis       *int      `least:"1" short:"w" env:"WEIR_WINDOW_MILLIS,WINDOW_MILLIS" placeholder:"MS" help:"Without --rules: length of the window in milliseconds (1000)."`
	MaxRequestsInQueue *int      `least:"0" env:"WEIR_MAX_REQUESTS_IN_QUEUE,MAX_REQUESTS_IN_QUEUE" placeholder:"N" help:"Without --rules: requests per key that may wait (400)."`
	Algorithm          Algorithm `enum:",gcra,fixed,sliding" default:"" placeholder:"NAME" help:"Without --rules: the rate algorithm: gcra, fixed or sliding (fixed)."`
}

// goccFile is a file of GoCC. Fields that are zero or null are not set.
type goccFile struct {
	Keys []goccKey `json:"keys"`
}

type goccKey struct {
	Pattern              string `json:"key_pattern"`
	PatternIsRegex       bool   `json:"key_pattern_is_regex"`
	MaxRequestsPerWindow int    `json:"max_requests_per_window"`
	MaxRequestsInQueue   int    `json:"max_requests_in_queue"`
	WindowMillis         int    `json:"window_millis"`
}

// LoadGoCC reads a file of GoCC: see ParseGoCC. If the path is empty, the defaults are
// the only rule.
func LoadGoCC(path string, defaults GoCCDefaults) (*Rules, error) {
	if path == "" {
		rules := &Rules{Rules: []Rule{defaults.rule()}}
		rules.Rules[0].OwnQuota = true // no operator has chosen a rate for these keys
		return rules, rules.Complete()
	}
	text, err := inputfile.Read(path, maxBytes+1)
	if err != nil {
		return nil, err
	}
	return ParseGoCC(path, text, defaults)
}

// ParseGoCC reads the content of a file of the rate limiter GoCC:
//
//	{"keys": [
//	  {"key_pattern": "^user-", "key_pattern_is_regex": true, "max_requests_per_window": 100},
//	  {"key_pattern": "user-cjk", "window_millis": 60000, "max_requests_in_queue": 50}
//	]}
//
// All patterns that match a key count, in the order of the file: a later one
// replaces the fields that it sets. So Rules.Merge is set, Rules[0] has the defaults,
// and the other rules are the entries of the file. They count in fixed windows.
// Errors are as those of Load. Unlike in GoCC, invalid regexes and fields are errors.
func ParseGoCC(name string, text []byte, defaults GoCCDefaults) (*Rules, error) {
	file, err := strictyaml.Parse(name, text, strictyaml.Bounds{Bytes: maxBytes, Values: maxValues})
	if err != nil {
		return nil, err
	}
	if file.Body == nil {
		return nil, file.Errorf(nil, "", `want {"keys": [...]}`)
	}
	r, err := gocc(file, defaults)
	if err != nil {
		return nil, err
	}
	r.Hash = rulefile.Hash(text)
	return r, nil
}

// isGoCC reports whether a file is in GoCC's format.
func isGoCC(file *strictyaml.File) bool {
	return filepath.Ext(file.Name) == ".json" && file.Has("keys") && !file.Has("rules")
}

func gocc(file *strictyaml.File, defaults GoCCDefaults) (*Rules, error) {
	r := &Rules{Merge: true, Rules: []Rule{defaults.rule()}}
	if err := r.Complete(); err != nil {
		return nil, err
	}
	var says goccFile
	file.Null = true
	file.Decode(file.Body, reflect.ValueOf(&says).Elem(), "")
	var all complaints
	c := &checker{report: func(e *FieldError) { all = append(all, complaint{file, e.Field, e}) }}
	c.check(len(says.Keys) < maxRules, "keys", len(says.Keys), fmt.Sprintf("there must be fewer than %d", maxRules))
	for i, k := range says.Keys {
		rule := k.rule()
		c.gocc("keys["+strconv.Itoa(i)+"]", k, &rule)
		r.Rules = append(r.Rules, rule)
	}
	all.report()
	if err := file.Err(); err != nil {
		return nil, err
	}
	r.complete()
	return r, nil
}

func (d GoCCDefaults) rule() Rule {
	window := time.Duration(*cmp.Or(d.WindowMillis, new(1000))) * time.Millisecond
	rate := Rate{Count: *cmp.Or(d.MaxRequests, new(100)), Period: window}
	quota := Quota{Rate: rate, Algorithm: cmp.Or(d.Algorithm, Fixed)}
	return Rule{Name: "default", Glob: "*", Quota: quota, MaxWait: goccMaxWait, Queue: cmp.Or(d.MaxRequestsInQueue, new(400))}
}

// rule returns the entry as a rule that overlays others.
func (k goccKey) rule() (r Rule) {
	if k.PatternIsRegex {
		r.Regex = k.Pattern
	} else {
		r.Key = k.Pattern
	}
	r.Rate = Rate{Count: k.MaxRequestsPerWindow, Period: time.Duration(k.WindowMillis) * time.Millisecond}
	if k.MaxRequestsInQueue != 0 {
		r.Queue = &k.MaxRequestsInQueue
	}
	return r
}

func (c *checker) gocc(path string, k goccKey, r *Rule) {
	if k.Pattern == "" {
		c.check(false, path+".key_pattern", nil, "must be given")
	} else {
		field, _ := r.Pattern()
		c.text(path+".key_pattern", field, k.Pattern)
	}
	c.within(path+".max_requests_per_window", k.MaxRequestsPerWindow, 0, maxCount)
	c.within(path+".max_requests_in_queue", k.MaxRequestsInQueue, 0, maxQueue)
	c.within(path+".window_millis", k.WindowMillis, 0, int64(maxPeriod/time.Millisecond))
}
