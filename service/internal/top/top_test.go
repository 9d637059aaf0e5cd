package top

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/terminal"
)

var update = flag.Bool("update", false, "write the golden files")

// state is a reading with every kind of content.
func state() reading {
	p95 := 1234.5
	flow := func(allowed, denied float64, reasons map[string]float64) adminapi.Flow[float64] {
		return adminapi.Flow[float64]{Allowed: allowed, Denied: denied, Reasons: reasons}
	}
	rule := func(name, glob, quota, mode string, waiting int, f adminapi.Flow[float64]) adminapi.RuleStatus {
		text := adminapi.RuleText{Name: name, Kind: "glob", Pattern: glob, Per: "key", Quota: quota, Mode: mode}
		return adminapi.RuleStatus{RuleText: text, Waiting: waiting, PerSecond: f}
	}
	const now = 1_700_000_000_000
	r := reading{
		url: "http://127.0.0.1:8081",
		status: adminapi.Status{
			NowMS: now, StartedMS: now - 3*3600_000, Ready: true, WindowMS: 10_000, RulesInForce: 5,
			Words:  "Of 312 requests per second, 64 are denied: 62 by login (over_rate), 2.3 by search (queue_full).",
			Config: adminapi.ConfigState{Path: "/etc/weir/rules.yaml", Hash: "3f2a90c1d5e7", LoadedMS: now - 125_000, Reloads: 2},
			Total:  adminapi.TotalState{PerSecond: flow(247.7, 64.3, nil), Waiting: 29, Leases: 7},
			Rules: []adminapi.RuleStatus{
				rule("api", "user:*", "20/s burst 40", "enforce", 0, flow(195, 0, nil)),
				rule("login", "login:*", "60/m", "enforce", 0, flow(1, 62, map[string]float64{"over_rate": 61.5, "over_burst": 0.5})),
				rule("search", "search:*", "50/s", "enforce", 29, flow(50, 2.3, map[string]float64{"queue_full": 2.3})),
				rule("batch", "batch:*", "5/s", "shadow", 0, flow(1.7, 0, nil)),
				rule("exports", "export:*", "", "enforce", 0, flow(0, 0, nil)),
			},
		},
		top: adminapi.Top{By: "denied", WindowMS: 10_000, Keys: []adminapi.Key{
			{Key: "login:mallory", Rules: []string{"login"}, Allowed: 100, Denied: 4711, AllowedPerSecond: 1, DeniedPerSecond: 61.5},
			{Key: "search:all", Rules: []string{"search"}, Allowed: 5000, Denied: 230, AllowedPerSecond: 50, DeniedPerSecond: 2.3, Waiting: 29},
			{Key: "login:a-key-that-is-far-too-long-for-a-narrow-screen-" + strings.Repeat("x", 100), Rules: []string{"login"}, Denied: 3},
		}},
	}
	rules := r.status.Rules
	rules[0].Candidate, rules[0].PerSecond.TrialDenied = "10/s", 88
	rules[2].WaitP95MS = &p95
	rules[3].PerSecond.Shadowed = 6.1
	rules[4].Leases = &adminapi.Leases{Limit: "4", Held: 7, Keys: 2}
	return r
}

var broken = "rules.yaml:12:5: unknown field \"rat\"\n  11 |   glob: \"login:*\"\n> 12 |   rat: 5/m"

// Each frame is as in testdata; -update rewrites it.
func TestTopFrames(t *testing.T) {
	heard := time.UnixMilli(1_700_000_000_000)
	denied := adminapi.Explanation{
		Key: "login:mallory", Words: `Denied (over_rate) by the rule "login": allowed again in 1.0 s.`,
		Rules: []adminapi.ExplainedRule{{
			RuleText: adminapi.RuleText{Name: "login", Kind: "glob", Pattern: "login:*"},
			Words:    "It lets each key that matches have 60/m: 0 of 60 left, all back in 60 s. 549 denied in this window.",
		}},
	}
	for name, v := range map[string]view{
		"wide":      {reading: state(), width: 120, height: 24},
		"narrow":    {reading: state(), width: 60, height: 24},
		"tiny":      {reading: state(), width: 20, height: 8},
		"low":       {reading: state(), width: 100, height: 11},
		"once":      {reading: state()},
		"connect":   {width: 80, height: 6},
		"never":     {width: 80, height: 6, err: errors.New("connection refused")},
		"away":      {reading: state(), width: 80, height: 24, err: errors.New("connection refused"), heard: heard, now: heard.Add(12 * time.Second)},
		"paused":    {reading: state(), width: 80, height: 20, paused: true},
		"asking":    {reading: state(), width: 80, height: 24, mode: asking, input: "login:mall"},
		"asked":     {reading: state(), width: 80, height: 24, mode: explained, input: "login:mallory"},
		"explained": {reading: state(), width: 80, height: 24, mode: explained, answer: &explainedMsg{Explanation: denied}},
		"help":      {reading: state(), width: 80, height: 24, mode: help},
	} {
		v.url, v.live = "http://127.0.0.1:8081", v.width > 0
		golden(t, name, &v)
	}
	bad := state()
	bad.status.Config.Error, bad.status.Config.FailureMS = broken, bad.status.NowMS-60_000
	bad.status.Ready, bad.status.NotReady = false, "draining"
	golden(t, "bad-file", &view{reading: bad, live: true, width: 80, height: 28})
	for name, width := range map[string]int{"fleet": 120, "fleet-narrow": 60} {
		golden(t, name, &view{reading: inFleet(), live: true, width: width, height: 28})
	}
}

// inFleet is a reading of an instance with a store, an upstream, leaves and peers.
func inFleet() reading {
	r := state()
	st := &r.status
	st.Store = &adminapi.StoreState{Instances: 3, Decisions: map[string]uint64{"exact": 120, "known": 0}}
	st.Upstream = &adminapi.LeafState{
		URL: "http://up:8080", Away: true, Error: "dial tcp: connection refused", Leaves: 20, Keys: 12, Assigned: 10, Decisions: map[string]uint64{"assigned": 900, "share": 7},
	}
	st.Total.Leaves, st.Total.Assignments = 2, 40
	st.Peers = &adminapi.PeersState{
		Self: "http://a:8080", Decisions: map[string]uint64{"exact": 5, "share": 2},
		Members: []adminapi.PeerState{
			{Name: "http://a:8080", Status: "live", Rules: "3f2a90c1d5e7"},
			{Name: "http://b:8080", Status: "live", Rules: "111111111111", OnlyThere: []string{"http://x"}},
			{Name: "http://c\x1b:8080", Status: "dead", Rules: "111111111111", Error: "dial tcp 10.0.0.3:8080: connect: connection refused"},
			{Name: "http://d:8080", Status: "left"},
		},
	}
	for i := range 4 {
		st.Peers.Members = append(st.Peers.Members, adminapi.PeerState{Name: fmt.Sprintf("http://e%d:8080", i), Status: "cut"})
	}
	return r
}

func golden(t *testing.T, name string, v *view) {
	t.Helper()
	lines := frame(v)
	for i, line := range lines {
		if v.width > 0 && lipgloss.Width(line) > v.width {
			t.Errorf("%s: line %d is wider than the screen: %q", name, i, line)
		}
	}
	if v.height > 0 && len(lines) != v.height {
		t.Errorf("%s: %d lines, want %d", name, len(lines), v.height)
	}
	got := ansi.Strip(strings.Join(lines, "\n")) + "\n"
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs from its file:\n%s", name, got)
	}
}

// evil has characters that change a terminal or the text around them.
const evil = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202egpj\u200bx\r\n\u00a0\ue000ü日本e\u0301"

var styles = regexp.MustCompile("\x1b\\[[0-9;]*m")

// harmless expects a frame of printable characters that fit the screen.
func harmless(t *testing.T, v *view) {
	t.Helper()
	for _, line := range frame(v) {
		text := styles.ReplaceAllString(line, "")
		if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.In(r, unicode.Mn) }); i >= 0 {
			t.Errorf("%q: character %q", text, []rune(text[i:])[0])
		}
		if v.width > 0 && lipgloss.Width(line) > v.width {
			t.Errorf("wider than the screen: %q", line)
		}
	}
}

// No text of a server sends control characters to the terminal.
func TestTopHostile(t *testing.T) {
	r := state()
	r.top.Keys[0].Key, r.top.Keys[0].Rules = evil+strings.Repeat("\u0301", 999), []string{evil}
	r.status.Config.Path, r.status.Config.Hash, r.status.Config.Error, r.status.Words = evil, evil, evil, evil
	r.status.Ready, r.status.NotReady = false, evil
	rule := &r.status.Rules[1]
	rule.Name, rule.Quota, rule.Mode, rule.Candidate = evil, evil, evil, evil
	rule.PerSecond.Reasons = map[string]float64{evil: 1}
	rule.Leases = &adminapi.Leases{Limit: evil}
	x := adminapi.Explanation{Key: evil, Words: evil, Rules: []adminapi.ExplainedRule{{RuleText: adminapi.RuleText{Name: evil, Pattern: evil}, Words: evil}}}
	for _, v := range []view{
		{reading: r, width: 80, height: 40}, {reading: r},
		{reading: r, width: 80, height: 40, mode: asking, input: evil},
		{reading: r, width: 80, height: 60, mode: explained, answer: &explainedMsg{Explanation: x}},
		{reading: r, width: 80, height: 60, mode: explained, answer: &explainedMsg{err: errors.New(evil)}},
		{width: 80, height: 20, err: errors.New(evil), reading: reading{url: evil}},
	} {
		v.live = true
		harmless(t, &v)
	}
	if got, want := terminal.Escape(evil), `\x1b]0;owned\a\x1b[2J\u009b31m\u202egpj\u200bx\r\n\u00a0\ue000ü日本e\u0301`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func FuzzSafe(f *testing.F) {
	f.Add("login:x", 10)
	f.Add("\x1b[31m\u202e日本\U0001f1e9\U0001f1ea\u200d\u1160", 5)
	f.Fuzz(func(t *testing.T, text string, width int) {
		width = max(1, min(width, 200))
		shown := terminal.Escape(text)
		for _, r := range shown {
			if unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Mn, unicode.Me) {
				t.Fatalf("%q of %q", shown, text)
			}
		}
		if short := ansi.Truncate(shown, width, "…"); lipgloss.Width(short) > width || len(short) > 4*4*width+3 {
			t.Fatalf("%q has %d columns: want %d", short, lipgloss.Width(short), width)
		}
	})
}

// press sends keys to a model: characters, or the names of keys.
func press(m model, keys ...string) (model, tea.Cmd) {
	var cmd tea.Cmd
	named := map[string]rune{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "backspace": tea.KeyBackspace}
	for _, k := range keys {
		key := tea.KeyPressMsg{Text: k, Code: []rune(k)[0]}
		if code, ok := named[k]; ok {
			key = tea.KeyPressMsg{Code: code}
		}
		var next tea.Model
		next, cmd = m.Update(key)
		m = next.(model)
	}
	return m, cmd
}

// Each key does what the help says.
func TestTopKeys(t *testing.T) {
	r := state()
	answers := make(chan string, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/-/live" {
			http.NotFound(w, r)
			return
		}
		answers <- r.URL.String()
		fmt.Fprint(w, `{"now_ms":1,"key":"a/b?","words":"Allowed."}`)
	}))
	defer srv.Close()
	r.url = srv.URL
	m := newModel(t.Context(), client{[]string{srv.URL}, srv.Client()}, time.Second, "denied")
	shown := func(m model) string { return m.View().Content }
	update := func(m model, msg tea.Msg) model { next, _ := m.Update(msg); return next.(model) }

	m = update(m, tea.WindowSizeMsg{Width: 100, Height: 30})
	if got := shown(m); !strings.Contains(got, "connecting…") || strings.Count(got, "\n") != 29 {
		t.Errorf("before the first answer: %q", got)
	}
	m = update(m, readMsg{reading: r, by: "denied", at: time.Now()})
	if !strings.Contains(shown(m), "login:mallory") {
		t.Errorf("after it: %q", shown(m))
	}

	m, cmd := press(m, "r")
	if cmd(); m.by != "requests" || <-answers == "" || !strings.Contains(<-answers, "by=requests") {
		t.Errorf("r asks for another order: %q", m.by)
	}
	other := r
	other.status.Words = "late"
	if late := update(m, readMsg{reading: other, by: "denied", at: time.Now()}); strings.Contains(shown(late), "late") {
		t.Error("an answer in the old order is shown")
	}
	m, _ = press(m, "d")

	m, _ = press(m, "p")
	if m = update(m, readMsg{reading: other, by: "denied", at: time.Now()}); strings.Contains(shown(m), "late") || !strings.Contains(shown(m), "paused") {
		t.Errorf("paused: %q", shown(m))
	}
	m, _ = press(m, "p")

	m, cmd = press(m, "e", "a", "x", "backspace", "/", "b", "?", "q", "backspace", "enter")
	if m.input != "a/b?" || !strings.Contains(shown(m), "explaining a/b?") {
		t.Errorf("typed %q", m.input)
	}
	answer := cmd()
	if got := <-answers; got != "/-/explain?key=a%2Fb%3F" {
		t.Errorf("asks %s", got)
	}
	again, _ := press(m, "esc", "e", "c", "enter")
	if late := update(again, answer); late.answer != nil {
		t.Error("the answer to an older question is shown")
	}
	if m = update(m, answer); !strings.Contains(shown(m), "Allowed.") {
		t.Errorf("explained: %q", shown(m))
	}
	m, _ = press(m, "esc", "e", "b", "\x1b", "esc")
	m = update(m, tea.PasteMsg{Content: "ignored"})
	if m.mode != keys || m.input != "b" {
		t.Errorf("esc: mode %d, %q", m.mode, m.input)
	}
	m, _ = press(m, "e")
	if m = update(m, tea.PasteMsg{Content: "pa\x1bst\ned"}); m.input != "pasted" {
		t.Errorf("pasted %q", m.input)
	}
	if m = update(m, tea.PasteMsg{Content: strings.Repeat("x", 2000)}); m.input != "pasted" {
		t.Errorf("too long: %q", m.input)
	}
	m, _ = press(m, "esc", "?")
	if !strings.Contains(shown(m), "explain a key: would") {
		t.Errorf("help: %q", shown(m))
	}
	if m, _ = press(m, "?"); m.mode != keys {
		t.Error("help does not end")
	}
	for _, mode := range []string{"esc", "?", "e"} {
		m, _ := press(m, mode)
		if _, cmd := m.Update(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}); cmd == nil || cmd() != tea.Quit() {
			t.Errorf("ctrl+c after %s does not quit", mode)
		}
	}
	if _, cmd := press(m, "q"); cmd == nil || cmd() != tea.Quit() {
		t.Error("q does not quit")
	}
}

// A process that fails is asked again, until it answers.
func TestTopAway(t *testing.T) {
	for kind, path := range map[string]string{"weir serve": "/-/status", "weir proxy": "/-/live"} {
		away := true
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case away:
				w.WriteHeader(http.StatusBadGateway)
			case r.URL.Path == path:
				fmt.Fprint(w, `{"now_ms":1,"words":"here again"}`)
			case r.URL.Path == "/-/top":
				fmt.Fprint(w, `{}`)
			default:
				http.NotFound(w, r)
			}
		}))
		defer srv.Close()
		var m tea.Model = newModel(t.Context(), client{[]string{srv.URL}, srv.Client()}, time.Millisecond, "denied")
		m, _ = m.Update(tea.WindowSizeMsg{Width: 100, Height: 30})
		cmd := m.Init()
		for _, want := range []string{"no answer: it answers 502 Bad Gateway: is it the address of --", "here again"} {
			m, cmd = m.Update(cmd())
			if !strings.Contains(m.View().Content, want) {
				t.Errorf("%s: %q: want %q", kind, m.View().Content, want)
			}
			m, cmd = m.Update(cmd()) // the tick
			away = false
		}
		srv.Close()
		m, _ = m.Update(cmd())
		if got := m.View().Content; !strings.Contains(got, "connection refused; trying again.") || !strings.Contains(got, "The rest is") || !strings.Contains(got, kind+"  "+srv.URL) || !strings.Contains(got, "here again") {
			t.Errorf("%s: %q", kind, got)
		}
	}
}

// Once and the interactive program show the state of a server.
func TestTop(t *testing.T) {
	s, err := server.New(server.Config{Rules: &config.Rules{Rules: []config.Rule{
		{Name: "login", Glob: "login:*", Quota: config.Quota{Rate: config.Rate{Count: 1, Period: time.Hour}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	api := adminapi.New(adminapi.Config{Server: s})
	defer api.Close()
	srv := httptest.NewServer(api)
	defer srv.Close()
	for range 100 {
		_ = s.Decide(context.Background(), &decider.Request{Key: "login:mallory", N: 1}, new(decider.Verdict))
	}
	var once bytes.Buffer
	if err := Once(t.Context(), Config{URLs: []string{srv.URL}, By: "denied"}, &once); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"by login (over_rate).", "login  1/h", "99        0  login  login:mallory"} {
		if !strings.Contains(once.String(), want) {
			t.Errorf("want %q in\n%s", want, once.String())
		}
	}
	if strings.Contains(once.String(), "\x1b") {
		t.Errorf("%q: want plain text", once.String())
	}

	var screen bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	m := newModel(ctx, client{[]string{srv.URL}, srv.Client()}, 10*time.Millisecond, "requests")
	quit := tea.WithFilter(func(m tea.Model, msg tea.Msg) tea.Msg {
		if r, ok := msg.(tickMsg); ok && !time.Time(r).IsZero() { // once all is shown
			return tea.KeyPressMsg{Text: "q", Code: 'q'}
		}
		return msg
	})
	end, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(nil), tea.WithOutput(&screen), tea.WithWindowSize(100, 30), tea.WithoutSignals(), quit).Run()
	if err != nil || !strings.Contains(end.View().Content, "login:mallory") || screen.Len() == 0 {
		t.Errorf("%v, %d bytes on the screen, %q", err, screen.Len(), end.View().Content)
	}

	srv.Close()
	if err := Once(t.Context(), Config{URLs: []string{srv.URL}, By: "denied"}, &once); err == nil || !strings.Contains(err.Error(), "no answer from "+srv.URL) {
		t.Errorf("%v", err)
	}
}
