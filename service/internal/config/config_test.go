package config_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/goccy/go-yaml"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/rulefile"
	"github.com/weir-go/weir/service/internal/strictyaml"
)

func ptr[T any](v T) *T { return &v }

const example = `apply: all
unmatched: deny
rules:
  - name: logins
    glob: "login:*"
    rate: 5/m
    burst: 10
    algorithm: gcra
    queue: 20
    max_wait: 10s
    max_debt: 0
    own_quota: true
  - name: reports
    key: reports
    concurrency: {limit: 10, ttl: 30s}
  - name: everybody
    glob: "*"
    per: rule
    rate: 1000 / second
    mode: shadow
    candidate: {rate: 500/s, algorithm: sliding}
  - domain: edge
    entries: {path: "/api/*", method: POST, port: 8080}
    rate: 1000/s
  - regex: ^job-\d+$
    concurrency: {limit: auto, min: 2, max: 50, queue: 0, max_wait: 1s, ttl: 1m, max_ttl: 1h}
    mode: off
`

var exampleRules = []config.Rule{
	{Name: "logins", Glob: "login:*", Quota: config.Quota{Rate: config.Rate{Count: 5, Period: time.Minute}, Burst: 10, Algorithm: config.GCRA},
		Queue: ptr(20), MaxWait: 10 * time.Second, MaxDebt: ptr(0), OwnQuota: true},
	{Name: "reports", Key: "reports", Concurrency: &config.Concurrency{Limit: 10, TTL: 30 * time.Second, MaxWait: config.DefaultMaxWait}},
	{Name: "everybody", Glob: "*", Per: config.PerRule, Quota: config.Quota{Rate: config.Rate{Count: 1000, Period: time.Second}}, MaxWait: config.DefaultMaxWait, Mode: config.Shadow,
		Candidate: &config.Quota{Rate: config.Rate{Count: 500, Period: time.Second}, Algorithm: config.Sliding}},
	{Name: "edge|method=POST|path=/api/*|port=8080", Domain: "edge", Entries: map[string]string{"method": "POST", "path": "/api/*", "port": "8080"},
		Quota: config.Quota{Rate: config.Rate{Count: 1000, Period: time.Second}}, MaxWait: config.DefaultMaxWait},
	{Name: "^job-_d+$", Regex: `^job-\d+$`, Mode: config.Off,
		Concurrency: &config.Concurrency{Limit: config.Auto, Min: 2, Max: 50, Queue: ptr(0), MaxWait: time.Second, TTL: time.Minute, MaxTTL: time.Hour}},
}

func TestParse(t *testing.T) {
	r, err := config.Parse("rules.yaml", []byte(example))
	testrig.Must(t, err)
	if r.Apply != config.All || r.Unmatched != "deny" || r.Merge || r.Hash != rulefile.Hash([]byte(example)) {
		t.Errorf("%+v", r)
	}
	for i, want := range exampleRules {
		if !reflect.DeepEqual(r.Rules[i], want) {
			t.Errorf("rule %d:\n%+v: want\n%+v", i, r.Rules[i], want)
		}
	}
}

// A file may be anything that says the same.
func TestSameRules(t *testing.T) {
	for rule, text := range map[string]string{
		"JSON":                      `{"rules":[{"key":"a","rate":"5/m"},{"key":"b","rate":"5/m"}]}`,
		"an anchor and its alias":   "rules:\n- key: a\n  rate: &r 5/m\n- key: b\n  rate: *r\n",
		"a byte order mark":         "\ufeffrules: [{key: a, rate: 5/m}, {key: b, rate: 5/m}]",
		"line ends of another kind": "rules:\r\n- key: a\r\n  rate: 5/m\r\n- key: b\r\n  rate: 5/m\r\n",
		"quotes":                    "rules: [{'key': \"a\", rate: '5/m'}, {key: \"\\x62\", rate: 5/minute}]",
		"a directive before it":     "%YAML 1.2\n---\nrules: [{key: a, rate: 5/m}, {key: b, rate: 5/m}]\n",
		"one document, ended":       "rules: [{key: a, rate: 5/m}, {key: b, rate: 5/m}]\n...\n",
		"one document, begun":       "---\nrules: [{key: a, rate: 5/m}, {key: b, rate: 5/m}]\n",
		"null where nothing is due": "rules: [{key: a, rate: 5/m, queue: null, concurrency: ~}, {key: b, rate: 5/m, candidate: }]",
	} {
		r, err := config.Parse("a.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", rule, err)
			continue
		}
		quota := config.Quota{Rate: config.Rate{Count: 5, Period: time.Minute}}
		if want := []config.Rule{{Name: "a", Key: "a", Quota: quota, MaxWait: config.DefaultMaxWait}, {Name: "b", Key: "b", Quota: quota, MaxWait: config.DefaultMaxWait}}; !reflect.DeepEqual(r.Rules, want) {
			t.Errorf("%s: %+v", rule, r.Rules)
		}
	}
}

// What is too much is refused, however it is said.
func TestBounds(t *testing.T) {
	for rule, tt := range map[string]struct{ text, want string }{
		"bytes":     {strings.Repeat("# comment\n", 16<<20/10+1), "a.yaml:1:1: more than 16777216 bytes"},
		"rules":     {"rules:\n- &r {key: a}\n" + strings.Repeat("- *r\n", 100_000), "a.yaml:2:1: rules = 100001: there must be at most 100000"},
		"not UTF-8": {"rules: []\n# caf\xe9\n", "a.yaml:2:6: not UTF-8"},
	} {
		if _, err := config.Parse("a.yaml", []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v: want %q", rule, err, tt.want)
		}
	}
}

// Rules of no file are checked alike, and their errors name the field.
func TestComplete(t *testing.T) {
	quota := config.Quota{Rate: config.Rate{Count: 5, Period: time.Second}}
	one := func(change func(r *config.Rule)) config.Rules {
		r := config.Rule{Glob: "*", Quota: quota}
		change(&r)
		return config.Rules{Rules: []config.Rule{r}}
	}
	for _, tt := range []struct {
		rule  string
		rules config.Rules
		want  string
	}{
		{"no rules are fine", config.Rules{}, ""},
		{"a value out of range", one(func(r *config.Rule) { r.Burst = -1 }), "config: rules[0].burst = -1: must be from 1 to 1000000000000"},
		{"a rate without a period", one(func(r *config.Rule) { r.Rate.Period = 0 }), "config: rules[0].rate = 5/0s: must have a period from 1ms to 3650d"},
		{"a rate that lets nothing pass is one", one(func(r *config.Rule) { r.Rate.Count = 0 }), ""},
		{"a rate that takes away", one(func(r *config.Rule) { r.Rate.Count = -5 }), "config: rules[0].rate = -5/s: must have a count from 0 to 1000000000000"},
		{"a text that is none of those there are", one(func(r *config.Rule) { r.Mode = "dry" }), `config: rules[0].mode = "dry": must be enforce, shadow or off`},
		{"no choice for keys without an assignment", one(func(r *config.Rule) { r.Unassigned = "allow" }), `config: rules[0].unassigned = "allow": must be ask, share or deny`},
		{"a negative concurrency", one(func(r *config.Rule) { r.Concurrency = &config.Concurrency{Limit: -1} }), "config: rules[0].concurrency.limit = -1: must be from 1 to 1000000"},
		{"bounds that leave no choice", one(func(r *config.Rule) { r.Concurrency = &config.Concurrency{Min: 5, Max: 5} }), ""},
		{"entries of any domain", one(func(r *config.Rule) { r.Glob, r.Entries = "", map[string]string{"a": "*"} }), ""},
		{"two patterns", one(func(r *config.Rule) { r.Entries = map[string]string{"a": "*"} }), "config: rules[0]: must have one of key, glob, regex and entries; has 2 of them"},
		{"long entries", one(func(r *config.Rule) { r.Glob, r.Entries = "", map[string]string{"a": strings.Repeat("|", 1365)} }),
			"config: rules[0].entries: must have at most 4096 bytes with the domain, as domain|key=value"},
		{"entries as long as they may be", one(func(r *config.Rule) { r.Glob, r.Entries = "", map[string]string{"a": strings.Repeat("|", 1364)} }), ""},
		{"names that are the same", config.Rules{Rules: []config.Rule{{Name: "a", Key: "a", Quota: quota}, {Name: "a", Key: "b", Quota: quota}}},
			`config: rules[1].name = "a": must differ from the name at rules[0].name`},
		{"a merge without defaults", config.Rules{Merge: true}, "config: rules[0].glob: must be *: it has the defaults of the others"},
		{"a merge whose defaults are not for all", config.Rules{Merge: true, Rules: []config.Rule{{Glob: "a*", Quota: quota}}}, "config: rules[0].glob: must be *: it has the defaults of the others"},
		{"a merge of more than rates and queues", config.Rules{Merge: true, Rules: []config.Rule{{Glob: "*", Quota: quota}, {Key: "a", Mode: config.Off}}},
			"config: rules[1]: must have no more than a pattern, a rate and a queue"},
		{"a merge of entries", config.Rules{Merge: true, Rules: []config.Rule{{Glob: "*", Quota: quota}, {Domain: "d", Entries: map[string]string{"a": "b"}, Queue: ptr(1)}}}, ""},
		{"a merge of entries and more", config.Rules{Merge: true, Rules: []config.Rule{{Glob: "*", Quota: quota}, {Entries: map[string]string{"a": "b"}, Per: config.PerRule}}},
			"config: rules[1]: must have no more than a pattern, a rate and a queue"},
		{"a merge of parts out of range", config.Rules{Merge: true, Rules: []config.Rule{{Glob: "*", Quota: quota}, {Key: "a", Queue: ptr(-1), Quota: config.Quota{Rate: config.Rate{Count: -1}}}}},
			"config: rules[1].rate = -1/1ms: must have a count from 0 to 1000000000000\nconfig: rules[1].queue = -1: must be from 0 to 1000000"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			said := ""
			if err := tt.rules.Complete(); err != nil {
				said = err.Error()
			}
			if said != tt.want {
				t.Errorf("%s: want %s", said, tt.want)
			}
		})
	}
}

func TestCompleteTellsTwentyErrors(t *testing.T) {
	r := config.Rules{Rules: make([]config.Rule, 100)}
	r.Rules[99].Key = "a"
	err := r.Complete()
	if r.Rules[99].Name != "" {
		t.Errorf("named %q in spite of errors", r.Rules[99].Name)
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 20 {
		t.Errorf("%d errors", n)
	}
	if e, ok := errors.AsType[*config.FieldError](err); !ok || e.Field != "rules[0]" {
		t.Errorf("%#v", e)
	}
}

// Names come from the patterns, and are unlike each other and those given.
func TestNames(t *testing.T) {
	quota := config.Quota{Rate: config.Rate{Count: 5, Period: time.Second}}
	long := strings.Repeat("n", 70)
	r := config.Rules{}
	for _, key := range []string{"a", "b c", "é\u2028\"\\", "a", "a#2", long, long, "a"} {
		r.Rules = append(r.Rules, config.Rule{Key: key, Quota: quota})
	}
	r.Rules = append(r.Rules, config.Rule{Glob: "x", Name: "a#3", Quota: quota},
		config.Rule{Entries: map[string]string{"z": "1 2", "a|": "*"}, Quota: quota}, config.Rule{Domain: "edge*", Entries: map[string]string{"é": ""}, Quota: quota})
	testrig.Must(t, r.Complete())
	var got []string
	for _, rule := range r.Rules {
		got = append(got, rule.Name)
	}
	if want := []string{"a", "b_c", "____", "a#2", "a#2#2", long[:64], long[:57] + "#2", "a#4", "a#3", "*|a%7C=*|z=1_2", "edge*|_="}; !slices.Equal(got, want) {
		t.Errorf("%q: want %q", got, want)
	}
	if err := r.Complete(); err != nil {
		t.Errorf("again: %v", err)
	}
}

// Whatever the text is: no panic, errors at places that there are, and what is
// read is the same when it is written and read again.
func FuzzParse(f *testing.F) {
	f.Add(example)
	f.Add("rules: [{key: a, rate: 5}]")
	f.Add("rules:\n- &r {key: a, rate: 5/s}\n- *r\n")
	f.Add(`{"keys": [{"key_pattern": "a"}]}`)
	f.Add("rules:\n  - glob: *\n")
	f.Add("rules: [{domain: edge, entries: {method: POST, a.b: '/*', \"\\u2028\": ''}, rate: 5/s}]")
	f.Add("rules: [{domain: '', entries: {'': a, x: 'b\\'}, rate: 5/s}, {entries: {}, rate: 5/s}]")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"a.yaml", "a.json"} {
			r, err := config.Parse(name, []byte(text))
			if err != nil {
				checkPlaces(t, err, strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimPrefix(text, "\ufeff")))
				continue
			}
			if err := r.Complete(); err != nil {
				t.Errorf("%v", err)
			}
			if r.Merge || len(r.Rules) == 0 { // written without zero values, it would be no file of rules
				continue
			}
			written, err := yaml.MarshalWithOptions(r, yaml.OmitZero())
			testrig.Must(t, err)
			again, err := config.Parse(name, written)
			if err != nil {
				t.Fatalf("%s\n%v", written, err)
			}
			again.Hash = r.Hash
			if !reflect.DeepEqual(again, r) {
				t.Errorf("%+v: written as %s", r, written)
			}
		}
	})
}

func checkPlaces(t *testing.T, err error, text string) {
	lines := strings.Split(text, "\n")
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		all = errors.Join(err).(interface{ Unwrap() []error })
	}
	for _, err := range all.Unwrap() {
		if more, nested := err.(interface{ Unwrap() []error }); nested {
			checkPlaces(t, errors.Join(more.Unwrap()...), text)
			continue
		}
		e, ok := errors.AsType[*strictyaml.Error](err)
		if !ok {
			continue
		}
		if e.Line < 1 || e.Line > len(lines) || e.Column < 1 || e.Column > len([]rune(lines[e.Line-1]))+1 {
			t.Errorf("%v: there is no such place", e)
		}
		if strings.ContainsAny(e.Error(), "\n\x1b") {
			t.Errorf("%q: not for one line", e)
		}
	}
}
