package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"
)

// A part is one of the things that a server spends its time on. A sample belongs to the first part that
// has a function of its stack, from the leaf to the root. Functions are given by the beginning of their names.
type part struct {
	name      string
	functions []string
}

var parts = []part{
	{"kernel: read", []string{"syscall.read", "syscall.Read", "github.com/weir-go/weir/service/internal/eventloop.read"}},
	{"kernel: write", []string{"syscall.write", "syscall.Write", "github.com/weir-go/weir/service/internal/eventloop.write"}},
	{"memory: allocation and garbage", []string{"runtime.mallocgc", "runtime.newobject", "runtime.growslice", "runtime.makeslice", "runtime.gc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.wbBuf"}},
	{"clock", []string{"time.now", "time.Now", "time.runtimeNow", "runtime.nanotime", "time.runtimeNano"}},
	{"scheduler and wake-ups", []string{
		"runtime.schedule", "runtime.mcall", "runtime.park_m", "runtime.gopark", "runtime.goready", "runtime.ready", "runtime.newproc",
		"runtime.goexit0", "runtime.findRunnable", "runtime.netpoll", "runtime.futex", "runtime.chan", "runtime.select", "runtime.morestack",
		"runtime.mstart", "runtime.sysmon", "runtime.newstack", "runtime.usleep", "runtime.lock", "runtime.unlock", "runtime.systemstack",
		"github.com/weir-go/weir/service/internal/eventloop.ready",
	}},
	{"HPACK", []string{"github.com/weir-go/weir/service/internal/h2inline/fieldblock", "golang.org/x/net/http2/hpack.", "net/http/internal/http2/hpack.", "vendor/golang.org/x/net/http2/hpack."}},
	{"gRPC and protobuf", []string{"google.golang.org/", "github.com/envoyproxy/"}},
	{"decision", []string{"github.com/weir-go/weir/service/internal/server.", "github.com/weir-go/weir/keyed.", "github.com/weir-go/weir/gcra.", "github.com/weir-go/weir/service/internal/match."}},
	{"requests and answers of weir", []string{"github.com/weir-go/weir/service/internal/server/", "github.com/weir-go/weir/service/internal/transport/", "github.com/weir-go/weir/service/internal/daemon", "github.com/weir-go/weir/service/internal/httpserve"}},
	{"inline transport", []string{"github.com/weir-go/weir/service/internal/h2inline"}},
	{"bounds of connections", []string{"github.com/weir-go/weir/service/internal/connlimit", "github.com/weir-go/weir/service/internal/eventloop"}},
	{"net/http", []string{"net/http", "golang.org/x/net/http2"}},
}

// partOf returns the part of a sample.
func partOf(s *profile.Sample) string {
	for _, location := range s.Location {
		for _, line := range location.Line {
			for _, p := range parts {
				for _, f := range p.functions {
					if strings.HasPrefix(line.Function.Name, f) {
						return p.name
					}
				}
			}
		}
	}
	return "other"
}

// weirs returns the names of the servers of weir.
func (s *setting) weirs() []string { return append(slices.Clone(s.transports), weirGRPC, weirRESP) }

// loadsOf returns the loads of a server that are measured.
func (s *setting) loadsOf(name string, f files) (loads []load) {
	for _, l := range s.loads(f) {
		if slices.Contains(s.servers(l), name) && s.only.MatchString(l.name) {
			loads = append(loads, l)
		}
	}
	return loads
}

// profiles prints what each transport spends the time of a request on.
func (s *setting) profiles(all servers, f files) error {
	for _, name := range s.weirs() {
		var loads []string
		spent := map[string][]string{} // by part
		names := append(partNames(), "all")
		for _, l := range s.loadsOf(name, f) {
			took, p, err := s.profileOf(all[name], l)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, l.name, err)
			}
			loads = append(loads, l.name)
			micros := byPart(p, took.micros)
			for _, p := range names {
				spent[p] = append(spent[p], fmt.Sprintf("%.2f", micros[p]))
			}
		}
		if len(loads) == 0 {
			continue
		}
		fmt.Printf("weir serve, %s: µs a request under %s\n", name, strings.Join(loads, " | "))
		for _, p := range names {
			row("  "+p, spent[p])
		}
	}
	return nil
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return append(names, "other")
}

// profileOf returns what a turn of a load takes, and a profile of the server meanwhile.
func (s *setting) profileOf(p server, l load) (spent, *profile.Profile, error) {
	type fetched struct {
		*profile.Profile
		error
	}
	result := make(chan fetched, 1)
	go func() {
		got, err := fetch(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", p.admin, s.seconds))
		result <- fetched{got, err}
	}()
	took, err := l.on(p, 0)
	got := <-result
	return took, got.Profile, cmp.Or(err, got.error)
}

// total returns the time of all samples, in ns.
func total(p *profile.Profile) (sum int64) {
	for _, sample := range p.Sample {
		sum += timeOf(sample)
	}
	return sum
}

// timeOf returns the time of a sample of a CPU profile, in ns: its values are the number of samples, and that.
func timeOf(s *profile.Sample) int64 { return s.Value[1] }

// byPart divides the CPU time of a request, in µs, among the parts.
func byPart(p *profile.Profile, micros float64) map[string]float64 {
	parts, all := map[string]float64{"all": micros}, float64(total(p))
	for _, sample := range p.Sample {
		parts[partOf(sample)] += float64(timeOf(sample)) / all * micros
	}
	return parts
}

// mergeProfiles writes the profiles of all servers of weir under all their loads to a file. Each counts as much as the others.
func (s *setting) mergeProfiles(all servers, f files) error {
	var ps []*profile.Profile
	for _, name := range s.weirs() {
		for _, l := range s.loadsOf(name, f) {
			_, p, err := s.profileOf(all[name], l)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, l.name, err)
			}
			p.Scale(float64(time.Hour) / float64(max(total(p), 1))) // long, because the compiler uses the number of samples, which is whole
			ps = append(ps, p)
		}
	}
	if len(ps) == 0 {
		return fmt.Errorf("-only %v: matches no load of weir serve", s.only)
	}
	merged, err := profile.Merge(ps)
	if err != nil {
		return err
	}
	out, err := os.Create(s.pgo)
	if err != nil {
		return err
	}
	return errors.Join(merged.Write(out), out.Close())
}

func fetch(url string) (*profile.Profile, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", resp.Status, body)
	}
	return profile.Parse(bytes.NewReader(body))
}
