// Package demo runs an origin, a proxy and a client in one process, over real HTTP on
// the loopback interface. It repeats the five experiments of marselester/capacity,
// which follow Jon Moore's talk "Stop Rate Limiting! Capacity Management Done Right":
// one at a time for a page, or all at once for a table.
//
// Times and rates are in the units of the experiment. Speed divides the real times and
// multiplies the real rates.
package demo

import (
	"fmt"
	"time"

	"github.com/weir-go/weir/service/internal/proxy"
)

// The client of all experiments.
const (
	Rate          = 5.0 // requests per second
	ClientWorkers = 10
	ClientTimeout = 2500 * time.Millisecond
)

// The origin's and the proxy's settings that all experiments share.
const (
	originQueue = 100
	// The time-out of the proxy is slightly below that of the client. A request may
	// wait for a tenth of the service time: enough to bridge the gap between a
	// departure and the next arrival, and within the time-out of the client. All
	// other settings have their defaults.
	originTimeout = 2400 * time.Millisecond
	maxWait       = 200 * time.Millisecond
	abandonedHold = 10 * time.Second
)

// A Setup has the settings of an experiment that can be changed.
type Setup struct {
	Workers     int
	ServiceTime time.Duration
	Proxy       Mode
}

func (s Setup) String() string {
	return fmt.Sprintf("%d workers × %v s, %s", s.Workers, s.ServiceTime.Seconds(), s.Proxy.describe())
}

// A Mode is "off" for no proxy between the client and the origin, or the limit of the
// proxy: "auto" or a number.
type Mode string

// Off is the Mode without a proxy.
const Off Mode = "off"

func (m Mode) limit() (proxy.Limit, error) {
	var l proxy.Limit
	if err := l.UnmarshalText([]byte(m)); err != nil {
		return l, fmt.Errorf("proxy = %q: must be off, auto or a whole number", m)
	}
	return l, nil
}

func (m Mode) describe() string {
	switch m {
	case Off:
		return "no proxy"
	case "auto":
		return "proxy, auto"
	default:
		return "proxy, limit " + string(m)
	}
}

// An Experiment is a Setup with a name and a description.
type Experiment struct {
	Name string
	Setup
	Source string // the result of marselester/capacity
}

// Experiments are the five experiments, in the order of the source.
var Experiments = []Experiment{
	{"normal", Setup{7, time.Second, Off}, "5 rps, p99 1 s"},
	{"slow", Setup{7, 2 * time.Second, Off}, "all time out; origin 3.5 rps"},
	{"more-workers", Setup{20, 2 * time.Second, Off}, "5 rps, p99 2 s"},
	{"fixed", Setup{7, 2 * time.Second, "5"}, "2.3 rps, origin p99 2 s"},
	{"adaptive", Setup{7, 2 * time.Second, "auto"}, "2.4–2.7 rps, origin p99 3 s"},
}

func find(name string) (Experiment, error) {
	for _, e := range Experiments {
		if e.Name == name {
			return e, nil
		}
	}
	return Experiment{}, fmt.Errorf("experiment = %q: there is no experiment of that name", name)
}

// nameOf returns the name of the experiment with this setup, empty if there is none.
func nameOf(s Setup) string {
	for _, e := range Experiments {
		if e.Setup == s {
			return e.Name
		}
	}
	return ""
}

// speed converts the units of the experiment to real ones and back.
type speed float64

func (s speed) real(d time.Duration) time.Duration { return time.Duration(float64(d) / float64(s)) }

func (s speed) own(d time.Duration) time.Duration { return time.Duration(float64(d) * float64(s)) }

func (s speed) proxyConfig(origin string, m Mode) (proxy.Config, error) {
	cfg := proxy.Config{
		Origin:        origin,
		MaxWait:       s.real(maxWait),
		Timeout:       s.real(originTimeout),
		AbandonedHold: s.real(abandonedHold),
	}
	if m == Off {
		return cfg, nil
	}
	var err error
	cfg.Limit, err = m.limit()
	return cfg, err
}
