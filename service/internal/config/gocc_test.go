package config_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/match"
	"github.com/weir-go/weir/service/internal/rulefile"
)

// decide returns what the Rules say about a key, as the server asks them.
func decide(t *testing.T, r *config.Rules, key string) config.Rule {
	t.Helper()
	var patterns []match.Pattern
	for _, rule := range r.Rules {
		switch {
		case rule.Key != "":
			patterns = append(patterns, match.Pattern{Kind: match.Exact, Text: rule.Key})
		case rule.Glob != "":
			patterns = append(patterns, match.Pattern{Kind: match.Glob, Text: rule.Glob})
		default:
			patterns = append(patterns, match.Pattern{Kind: match.Regex, Text: rule.Regex})
		}
	}
	set, err := match.New(patterns)
	testrig.Must(t, err)
	return r.Merged(set.All(key, nil))
}

const goccFile = `{
	"keys": [
		{
			"key_pattern": "^user-.*",
			"key_pattern_is_regex": true,
			"max_requests_per_window": 100,
			"max_requests_in_queue": 50,
			"window_millis": 60000
		},
		{"key_pattern": "guest", "max_requests_in_queue": 5, "max_requests_per_window": 0, "window_millis": null},
		{"key_pattern": "user-cjk", "key_pattern_is_regex": false, "max_requests_per_window": 1},
		{"key_pattern": "\\d$", "key_pattern_is_regex": true, "window_millis": 500}
	]
}
`

// GoCC's file decides as GoCC does: what matches is applied in order.
func TestGoCC(t *testing.T) {
	r, err := config.Parse("gocc.json", []byte(goccFile))
	testrig.Must(t, err)
	if !r.Merge || r.Hash != rulefile.Hash([]byte(goccFile)) {
		t.Errorf("%+v", r)
	}
	for _, tt := range []struct {
		rule, key, name string
		rate            string
		queue           int
	}{
		{"what nothing matches has the defaults", "other", "default", "100/s", 400},
		{"a regex matches somewhere", "user-a", "^user-.*", "100/m", 50},
		{"only where it says", "a-user-a", "default", "100/s", 400},
		{"zero and null are not set", "guest", "guest", "100/s", 5},
		{"a key is all of the key", "guest-a", "default", "100/s", 400},
		{"a later pattern replaces what it sets, and no more", "user-cjk", "^user-.* + user-cjk", "1/m", 50},
		{"regexes overlap", "user-7", "^user-.* + _d$", "100/500ms", 50},
	} {
		got := decide(t, r, tt.key)
		if got.Name != tt.name || got.Rate.String() != tt.rate || *got.Queue != tt.queue || got.Algorithm != config.Fixed || got.Glob != "*" {
			t.Errorf("%s: %q: %+v, queue %d", tt.rule, tt.key, got, *got.Queue)
		}
	}
}

func TestGoCCDefaults(t *testing.T) {
	r, err := config.ParseGoCC("gocc.json", []byte(`{"keys": [{"key_pattern": "a", "window_millis": 10}]}`), config.GoCCDefaults{MaxRequests: ptr(7), MaxRequestsInQueue: ptr(0), WindowMillis: ptr(60_000)})
	testrig.Must(t, err)
	if got := decide(t, r, "b"); got.Rate.String() != "7/m" || *got.Queue != 0 {
		t.Errorf("%+v", got)
	}
	if got := decide(t, r, "a"); got.Rate.String() != "7/10ms" || *got.Queue != 0 {
		t.Errorf("%+v", got)
	}
	_, err = config.ParseGoCC("gocc.json", []byte(`{"keys": []}`), config.GoCCDefaults{WindowMillis: ptr(-1)})
	if want := "config: rules[0].rate = 100/-1ms: must have a period from 1ms to 3650d"; err == nil || err.Error() != want {
		t.Errorf("%v: want %s", err, want)
	}
	if _, err = config.ParseGoCC("gocc.json", nil, config.GoCCDefaults{}); err == nil {
		t.Error("nothing is read as a file")
	}
}

// Merged does not change the Rules, and gives each list a unique name.
func TestMergedNames(t *testing.T) {
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprintf(`{"key_pattern": "%s%d", "max_requests_in_queue": %d}`, strings.Repeat("k", i), i, i+1))
	}
	r, err := config.Parse("gocc.json", []byte(`{"keys": [`+strings.Join(keys, ",")+`]}`))
	testrig.Must(t, err)
	before := fmt.Sprintf("%+v %d", r, *r.Rules[0].Queue)
	names := map[string]bool{}
	for set := range 1 << 12 {
		var list []int
		for i := range 12 {
			if set>>i&1 == 1 {
				list = append(list, i+8)
			}
		}
		m := r.Merged(list)
		if names[m.Name] || len(m.Name) > 64 {
			t.Errorf("%v: the name %q", list, m.Name)
		}
		names[m.Name] = true
		m.Name = ""
		if err := (&config.Rules{Rules: []config.Rule{m}}).Complete(); err != nil {
			t.Errorf("%v: %v", list, err)
		}
	}
	if after := fmt.Sprintf("%+v %d", r, *r.Rules[0].Queue); after != before {
		t.Errorf("%s: before %s", after, before)
	}
	if a, b := r.Merged([]int{0, 3}), r.Merged([]int{3}); !reflect.DeepEqual(a, b) {
		t.Errorf("%+v: without the defaults' place %+v", a, b)
	}
}

// FuzzGoCC compares files with GoCC's own words: the values of all patterns that
// match, applied one by one.
func FuzzGoCC(f *testing.F) {
	patterns := []string{"a", "b", "ab", "^a", "b$", ".", "a.*b", "^$", "[ab]"}
	f.Add([]byte{0, 1, 2, 3, 3, 1, 0, 9, 4, 0, 7, 0})
	f.Fuzz(func(t *testing.T, choices []byte) {
		type key struct {
			Pattern string `json:"key_pattern"`
			Regex   bool   `json:"key_pattern_is_regex"`
			Max     int    `json:"max_requests_per_window,omitempty"`
			Queue   int    `json:"max_requests_in_queue,omitempty"`
			Window  int    `json:"window_millis"`
		}
		var keys []key
		for c := range slices.Chunk(choices, 4) {
			if len(c) == 4 {
				keys = append(keys, key{patterns[int(c[0])%len(patterns)], c[0]&128 != 0, int(c[1]) % 4, int(c[2]) % 4, int(c[3]) % 4})
			}
		}
		text, err := json.Marshal(map[string][]key{"keys": keys})
		testrig.Must(t, err)
		r, err := config.Parse("gocc.json", text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		seen := map[string]string{} // what the rules of a name are
		for _, k := range []string{"a", "b", "ab", "aab", "c", "ba", "xbx"} {
			max, queue, window := 100, 400, 1000
			for _, over := range keys {
				if over.Regex && regexp.MustCompile(over.Pattern).MatchString(k) || !over.Regex && over.Pattern == k {
					for to, value := range map[*int]int{&max: over.Max, &queue: over.Queue, &window: over.Window} {
						if value != 0 {
							*to = value
						}
					}
				}
			}
			got := decide(t, r, k)
			if got.Rate != (config.Rate{Count: max, Period: time.Duration(window) * time.Millisecond}) || *got.Queue != queue {
				t.Errorf("%s: %q: %+v, queue %d: want %d in %d ms, queue %d", text, k, got, *got.Queue, max, window, queue)
			}
			says := fmt.Sprint(got.Rate, *got.Queue)
			if was, ok := seen[got.Name]; ok && was != says {
				t.Errorf("%q is %s and %s", got.Name, was, says)
			}
			seen[got.Name] = says
		}
	})
}
