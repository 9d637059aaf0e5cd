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

// Rate is the number of requests that the client offers per second.
const Rate = 5.0

// A Client has the settings of the client. Requests that are due while all workers wait
// for an answer are not sent.
type Client struct {
	Rate           float64 `json:"rate_rps"`
	Workers        int     `json:"workers"`
	TimeoutSeconds float64 `json:"timeout_seconds"`
}

func (c Client) timeout() time.Duration {
	return time.Duration(c.TimeoutSeconds * float64(time.Second))
}

// Source is the client of the five experiments. A request of 2 s is in time only if it
// waits for less than half a second.
var Source = Client{Rate: Rate, Workers: 10, TimeoutSeconds: 2.5}

// The origin's and the proxy's settings that all experiments share.
const (
	originQueue   = 100
	margin        = 100 * time.Millisecond // the time-out of the proxy is that much below that of the client
	maxWait       = 200 * time.Millisecond // a tenth of the service time bridges the gap until the next arrival
	abandonedHold = 10 * time.Second
)

// A Setup has the settings of an experiment that can be changed.
type Setup struct {
	Workers        int     `json:"workers"`
	ServiceSeconds float64 `json:"service_seconds"`
	Proxy          Mode    `json:"proxy"`
}

func (s Setup) title() string {
	proxy := "proxy, limit " + string(s.Proxy)
	switch s.Proxy {
	case Off:
		proxy = "no proxy"
	case "auto":
		proxy = "proxy, auto"
	}
	return fmt.Sprintf("%d workers × %v s, %s", s.Workers, s.ServiceSeconds, proxy)
}

// capacity returns the requests per second that the origin can finish.
func (s Setup) capacity() float64 { return float64(s.Workers) / s.ServiceSeconds }

func (s Setup) serviceTime() time.Duration {
	return time.Duration(s.ServiceSeconds * float64(time.Second))
}

// A Mode is "off" for no proxy between the client and the origin, or the limit of the
// proxy: "auto" or a number.
type Mode string

// Off is the Mode without a proxy.
const Off Mode = "off"

// limit returns the limit of the proxy; that of Off is the default.
func (m Mode) limit() (l proxy.Limit, err error) {
	if m == Off {
		return l, nil
	}
	if err := l.UnmarshalText([]byte(m)); err != nil {
		return l, fmt.Errorf("proxy = %q: must be off, auto or a whole number", m)
	}
	return l, nil
}

// An Experiment is a Setup with a name and a description.
type Experiment struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Setup
	Source string `json:"saw"` // the result of marselester/capacity
}

// Experiments are the five experiments, in the order of the source.
var Experiments = []Experiment{
	experiment("normal", Setup{7, 1, Off}, "5 rps, p99 1 s"),
	experiment("slow", Setup{7, 2, Off}, "all time out; origin 3.5 rps"),
	experiment("more-workers", Setup{20, 2, Off}, "5 rps, p99 2 s"),
	experiment("fixed", Setup{7, 2, "5"}, "2.3 rps, origin p99 2 s"),
	experiment("adaptive", Setup{7, 2, "auto"}, "2.4–2.7 rps, origin p99 3 s"),
}

func experiment(name string, s Setup, source string) Experiment {
	return Experiment{name, s.title(), s, source}
}

// speed converts the units of the experiment to real ones and back.
type speed float64

func (s speed) real(d time.Duration) time.Duration { return time.Duration(float64(d) / float64(s)) }

func (s speed) own(d time.Duration) time.Duration { return time.Duration(float64(d) * float64(s)) }
