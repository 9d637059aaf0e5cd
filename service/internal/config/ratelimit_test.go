package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/descriptor"
	"github.com/weir-go/weir/service/internal/rulefile"
)

const rateLimitFile = `
domain: edge
descriptors:
  - key: method
    value: POST
    rate_limit: {unit: Second, requests_per_unit: 5, name: posts, replaces: [{name: all}]}
    descriptors:
      - key: path
        rate_limit: {unit: WEEK, requests_per_unit: 0}
        shadow_mode: true
      - key: path
        value: /files/*
        share_threshold: true
        rate_limit: {unit: month, requests_per_unit: 4294967295}
  - key: user
    quota_mode: true
    detailed_metric: true
    value_to_metric: true
    metadata: {team: edge}
    rate_limit: {unit: year, requests_per_unit: 7}
  - key: status
    value: 404
    rate_limit: {unlimited: true, name: all}
  - key: free
`

// A file of envoyproxy/ratelimit is rules, and a tree that finds them.
func TestRateLimit(t *testing.T) {
	r, err := config.Parse("edge.yaml", []byte(rateLimitFile))
	testrig.Must(t, err)
	want := []struct {
		path, name string
		rate       config.Rate
		per        config.Per
		mode       config.Mode
		shares     []string
		unlimited  bool
	}{
		{"edge|method=POST", "edge.method_POST", config.Rate{Count: 5, Period: time.Second}, config.PerRule, "", nil, false},
		{"edge|method=POST|path", "edge.method_POST.path", config.Rate{Count: 0, Period: 7 * 24 * time.Hour}, "", config.Shadow, nil, false},
		{"edge|method=POST|path=/files/*", "edge.method_POST.path_/files/*", config.Rate{Count: 1<<32 - 1, Period: 30 * 24 * time.Hour}, "", "", []string{"", "/files/*"}, false},
		{"edge|user", "edge.user", config.Rate{Count: 7, Period: 365 * 24 * time.Hour}, "", config.Shadow, nil, false},
		{"edge|status=404", "edge.status_404", config.Rate{}, config.PerRule, "", nil, true},
	}
	if len(r.Rules) != len(want) || r.Hash != rulefile.Hash([]byte(rateLimitFile)) {
		t.Fatalf("%d rules, hash %s", len(r.Rules), r.Hash)
	}
	for i, w := range want {
		got := r.Rules[i]
		of := got.Descriptor
		if of.Path != w.path || got.Name != w.name || got.Rate != w.rate || got.Per != w.per || got.Mode != w.mode || got.Algorithm != "" ||
			!slices.Equal(of.Shares, w.shares) || of.Unlimited != w.unlimited {
			t.Errorf("%+v, %+v: want %+v", got, of, w)
		}
	}
	if first := r.Rules[0].Descriptor; first.Name != "posts" || !slices.Equal(first.Replaces, []string{"all"}) {
		t.Errorf("%+v", first)
	}
	for key, limit := range map[string]int{"method=POST": 0, "method=POST|path=/": 1, "method=POST|path=/files/a": 2, "user=": 3, "status=404": 4, "free=x": descriptor.None} {
		domain, entries, _ := descriptor.Parse("edge|" + key)
		if got, _ := r.Descriptors.Find(domain, entries); got != limit {
			t.Errorf("%s: %d: want %d", key, got, limit)
		}
	}
}

// Names of rules are printable, short, and different, and those of the same places are the
// same in every file.
func TestRateLimitNames(t *testing.T) {
	long := strings.Repeat("long", 30)
	limit := "rate_limit: {unit: second, requests_per_unit: 1}"
	text := "domain: d\ndescriptors:\n" +
		"- {key: a.b, " + limit + "}\n" +
		"- {key: a, descriptors: [{key: b, " + limit + "}]}\n" +
		"- {key: ' ü\"', " + limit + "}\n" +
		"- {key: " + long + ", " + limit + "}\n"
	r, err := config.Parse("d.yaml", []byte(text))
	testrig.Must(t, err)
	if got := []string{r.Rules[0].Name, r.Rules[1].Name[:6], r.Rules[2].Name}; !slices.Equal(got, []string{"d.a.b", "d.a.b#", "d.___"}) || len(r.Rules[3].Name) != 64 {
		t.Errorf("%q, %q", got, r.Rules[3].Name)
	}
}

// Several files are one configuration, if their domains differ or are merged, and none is of
// another format.
func TestRateLimitDirectory(t *testing.T) {
	a := "domain: a\ndescriptors: [{key: k, rate_limit: {unit: second, requests_per_unit: 1}}]\n"
	for _, tt := range []struct {
		rule  string
		files map[string]string
		merge bool
		want  string
	}{
		{"two domains", map[string]string{"1.yaml": a, "2.yml": "domain: b"}, false, ""},
		{"a domain twice", map[string]string{"1.yaml": a, "2.yaml": "domain: a"}, false,
			`2.yaml:1:9: domain = "a": an earlier file has this domain (allow that with --merge-domain-config)`},
		{"merged", map[string]string{"1.yaml": a, "2.yaml": "domain: a\ndescriptors: [{key: k2}]"}, true, ""},
		{"a descriptor twice", map[string]string{"1.yaml": a, "2.yaml": a}, true, "2.yaml:2:15: descriptors[0]: a second descriptor for a|k"},
		{"two formats", map[string]string{"1.yaml": a, "2.yaml": "rules: []"}, false, "2.yaml:1:1: want a domain and descriptors, as in "},
	} {
		dir := t.TempDir()
		for name, text := range tt.files {
			testrig.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		_, err := config.LoadWith(dir, config.RateLimitOptions{MergeDomains: tt.merge})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", tt.rule, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v: want %s", tt.rule, err, tt.want)
		}
	}
}

// Loading ends with rules or an error, whatever the file is.
func FuzzRateLimit(f *testing.F) {
	f.Add([]byte(rateLimitFile))
	f.Add([]byte("domain: a\ndescriptors: [{key: '*', share_threshold: true, rate_limit: {unlimited: true}}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := config.Parse("fuzz.yaml", append([]byte("domain: d\n"), text...))
		if err != nil || r.Descriptors == nil {
			return
		}
		for i := range r.Rules {
			domain, entries, ok := descriptor.Parse(r.Rules[i].Descriptor.Path + "=")
			if !ok { // it ends with a value
				domain, entries, _ = descriptor.Parse(r.Rules[i].Descriptor.Path)
			}
			if limit, known := r.Descriptors.Find(domain, entries); !known || limit >= len(r.Rules) {
				t.Errorf("%s: %d, %v", r.Rules[i].Descriptor.Path, limit, known)
			}
		}
	})
}
