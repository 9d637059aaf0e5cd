package sim

import (
	"time"

	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/codel"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/service/internal/lab/dist"
)

// A Scenario has clients, and the layers that their requests go through. The clients
// call the first layer. The YAML files under scenarios are Scenarios.
type Scenario struct {
	Name     string        `yaml:"name" json:"name"`
	Duration time.Duration `yaml:"duration" json:"duration"` // of the run, > 0
	Warmup   time.Duration `yaml:"warmup" json:"warmup"`     // the beginning, which is not measured; < Duration
	Step     time.Duration `yaml:"step" json:"step"`         // of the series. If zero, a 200th of Duration
	Seed     uint64        `yaml:"seed" json:"seed"`         // of the random numbers
	Layers   []Layer       `yaml:"layers" json:"layers"`
	Clients  []Client      `yaml:"clients" json:"clients"`
}

// A Layer is a station with workers, and the guard in front of it, if any. A
// request is admitted by the guard, waits for a worker, works, calls the next
// layer while it holds its worker, and is answered.
type Layer struct {
	Name    string `yaml:"name" json:"name"`
	Guard   *Guard `yaml:"guard" json:"guard,omitempty"` // if nil, all requests are admitted
	Workers int    `yaml:"workers" json:"workers"`       // requests processed at once. If zero, unbounded
	Queue   *int   `yaml:"queue" json:"queue,omitempty"` // requests that wait for a worker; further ones are refused. If nil, unbounded
	// Sharing lets all requests work at once, each at the speed Workers/N if there
	// are N > Workers: a shared processor. Queue has no effect then.
	Sharing bool `yaml:"sharing" json:"sharing,omitempty"`

	ServiceTime dist.ServiceTime `yaml:"service_time" json:"service_time"` // of the layer's own work
	Classes     map[string]Class `yaml:"classes" json:"classes,omitempty"` // instead, for the classes named
	Contention  Contention       `yaml:"contention" json:"contention,omitzero"`
	Pause       Pause            `yaml:"pause" json:"pause,omitzero"`

	// Faults are requests that end for reasons that are not load. They are
	// drawn when a request arrives at the station. A faulty request waits for
	// no worker and holds none.
	FailureRate float64          `yaml:"failure_rate" json:"failure_rate,omitempty"` // share that fails: an error that no guard takes for overload
	RefuseRate  float64          `yaml:"refuse_rate" json:"refuse_rate,omitempty"`   // share that is refused, as if overloaded
	HangRate    float64          `yaml:"hang_rate" json:"hang_rate,omitempty"`       // share that gets no answer; with the other rates, at most 1
	FailAfter   dist.ServiceTime `yaml:"fail_after" json:"fail_after,omitzero"`      // how long a failure takes. If zero, no time
	RefuseAfter dist.ServiceTime `yaml:"refuse_after" json:"refuse_after,omitzero"`  // how long a refusal takes. If zero, no time
	// HangFor is how long a request hangs, whether its caller has left or not.
	// If zero, it hangs until its caller leaves, but for at most a minute.
	HangFor time.Duration `yaml:"hang_for" json:"hang_for,omitempty"`
	// FailWorks lets a request that fails wait for a worker, and hold it for
	// FailAfter.
	FailWorks bool `yaml:"fail_works" json:"fail_works,omitempty"`
	Flap      Flap `yaml:"flap" json:"flap,omitzero"` // when faults occur
	// FailingClasses are the classes with faults. If empty, all classes.
	FailingClasses []string `yaml:"failing_classes" json:"failing_classes,omitempty"`
	// Pods, if not zero, is the number of pods that requests are dealt to at
	// random. Faults occur in BadPods of them. The good pods share the Workers.
	Pods    int `yaml:"pods" json:"pods,omitempty"`
	BadPods int `yaml:"bad_pods" json:"bad_pods,omitempty"` // <= Pods

	// CancelAbandoned ends work after its caller has left. If false, the work
	// goes on, as in most real services.
	CancelAbandoned bool `yaml:"cancel_abandoned" json:"cancel_abandoned,omitempty"`

	Calls    int           `yaml:"calls" json:"calls,omitempty"`       // of the next layer, one after the other, by each request. If zero, 1
	Attempts int           `yaml:"attempts" json:"attempts,omitempty"` // of each such call, at once after a failure. If zero, 1
	Timeout  time.Duration `yaml:"timeout" json:"timeout,omitempty"`   // how long a caller waits for this layer's answer. If zero, for ever
	Changes  []Change      `yaml:"changes" json:"changes,omitempty"`   // in the order of time
}

// A Guard is the gate in front of a station.
type Guard struct {
	Limit   Limit         `yaml:"limit" json:"limit"`
	Queue   int           `yaml:"queue" json:"queue"`           // how many wait for the guard. If zero, none
	Depth   float64       `yaml:"depth" json:"depth,omitempty"` // and how many for each unit of the limit. If zero, only Queue counts
	Brief   time.Duration `yaml:"brief" json:"brief,omitempty"` // a wait that Depth always grants. If zero, none
	MaxWait time.Duration `yaml:"max_wait" json:"max_wait"`     // and how long. If zero, unbounded

	Discipline Discipline    `yaml:"discipline" json:"discipline,omitempty"`   // fifo (also if empty), codel or adaptive_lifo
	Target     time.Duration `yaml:"target" json:"target,omitempty"`           // of codel and adaptive_lifo. If zero, 5 ms
	Interval   time.Duration `yaml:"interval" json:"interval,omitempty"`       // of both. If zero, 100 ms
	FairQueues int           `yaml:"fair_queues" json:"fair_queues,omitempty"` // that tenants are dealt to. If zero, no fairness
	FairHand   int           `yaml:"fair_hand" json:"fair_hand,omitempty"`     // of those, for each tenant. If zero, gate's default
	Aging      time.Duration `yaml:"aging" json:"aging,omitempty"`             // a waiter rises by a priority per Aging. If zero, never
	Partitions []float64     `yaml:"partitions" json:"partitions,omitempty"`   // shares of the limit that are guaranteed to partitions 1, 2, …

	// Rate, if not nil, makes the guard a limit on the rate. Of the other
	// fields, only Instances and Library count then.
	Rate *Rate `yaml:"rate" json:"rate,omitempty"`

	// Instances are the replicas of the guard. If empty, it has one.
	Instances Instances `yaml:"instances" json:"instances,omitempty"`

	// Library is a guard that sees its caller leave and not the end of the
	// work, as in a program. If false, it sees the end, as a proxy does.
	Library bool `yaml:"library" json:"library,omitempty"`
	// Blind hides the callers' deadlines from the guard.
	Blind bool `yaml:"blind" json:"blind,omitempty"`

	// Other, if not nil, makes a Limiter for each instance.
	// Of the fields above, only Instances, Library and Blind count then.
	Other func() Limiter `yaml:"-" json:"-"`
}

func (g *Guard) config() gate.Config {
	return gate.Config{
		Queue: g.Queue, Depth: g.Depth, MinWait: g.Brief, MaxWait: g.MaxWait, Discipline: gate.Discipline(g.Discipline),
		CoDel: codel.Config{Target: g.Target, Interval: g.Interval},
		Fair:  gate.Fairness{Queues: g.FairQueues, Hand: g.FairHand}, Aging: g.Aging, Partitions: g.Partitions,
	}
}

// Contention slows work down while other workers are busy (Gunther's Universal
// Scalability Law): service times are multiplied by 1 + Sigma·(N−1) + Kappa·N·(N−1) for
// N busy workers.
type Contention struct {
	Sigma float64 `yaml:"sigma" json:"sigma"`
	Kappa float64 `yaml:"kappa" json:"kappa"`
}

// Pause stops all work of a station, like a garbage collection.
type Pause struct {
	First time.Duration `yaml:"first" json:"first"` // its instant
	Every time.Duration `yaml:"every" json:"every"` // > For. If zero, once
	For   time.Duration `yaml:"for" json:"for"`     // if zero, no pause
}

// A Class is the work of one class of requests.
type Class struct {
	dist.ServiceTime `yaml:",inline"`
	// Stream marks a request that lasts for its service time without a worker, such
	// as an event stream or a download. Nothing slows it down.
	Stream bool `yaml:"stream" json:"stream,omitempty"`
}

// A Change of a station applies to work that begins later. Nil fields do not change
// anything.
type Change struct {
	At       time.Duration `yaml:"at" json:"at"`
	Slowdown *float64      `yaml:"slowdown" json:"slowdown,omitempty"` // factor of the service times, > 0; 1 is as configured
	Workers  *int          `yaml:"workers" json:"workers,omitempty"`   // >= 1
	// Down refuses all requests in the station, and all that arrive later, each after
	// RefuseAfter; false ends it.
	Down *bool `yaml:"down" json:"down,omitempty"`

	// Of the faults, as in Layer.
	FailureRate *float64          `yaml:"failure_rate" json:"failure_rate,omitempty"`
	RefuseRate  *float64          `yaml:"refuse_rate" json:"refuse_rate,omitempty"`
	HangRate    *float64          `yaml:"hang_rate" json:"hang_rate,omitempty"`
	FailAfter   *dist.ServiceTime `yaml:"fail_after" json:"fail_after,omitempty"`
	RefuseAfter *dist.ServiceTime `yaml:"refuse_after" json:"refuse_after,omitempty"`
	HangFor     *time.Duration    `yaml:"hang_for" json:"hang_for,omitempty"`
	BadPods     *int              `yaml:"bad_pods" json:"bad_pods,omitempty"`
}

// A Client is a population that makes calls. A call is one attempt to get an answer or,
// with retries, several.
type Client struct {
	Name string `yaml:"name" json:"name"`

	// Rate is the rate of an open loop, in the syntax of pace.Parse: calls arrive
	// regardless of earlier ones.
	Rate     string `yaml:"rate" json:"rate,omitempty"`
	Arrivals string `yaml:"arrivals" json:"arrivals,omitempty"` // poisson (also if empty) or even
	Burst    Burst  `yaml:"burst" json:"burst,omitzero"`

	// Users is the number of users of a closed loop. Each thinks, calls, and waits for
	// the answer.
	Users int              `yaml:"users" json:"users,omitempty"`
	Think dist.ServiceTime `yaml:"think" json:"think,omitzero"`
	// Pause is the least time between a failed call of a user and the next call. If
	// zero, 1 ms, because a refusal takes no time.
	Pause time.Duration `yaml:"pause" json:"pause,omitempty"`

	Timeout  time.Duration `yaml:"timeout" json:"timeout,omitempty"`   // of an attempt. If zero, none
	Deadline time.Duration `yaml:"deadline" json:"deadline,omitempty"` // of a call, from its intended start. If zero, none
	Retry    Retry         `yaml:"retry" json:"retry,omitzero"`
	// Throttle holds attempts back when too many have been rejected. If nil, it does
	// not.
	Throttle *adaptive.Config `yaml:"throttle" json:"throttle,omitempty"`

	Tenants   int      `yaml:"tenants" json:"tenants,omitempty"`     // that the calls come from, at random. If zero, 1
	Priority  Priority `yaml:"priority" json:"priority,omitempty"`   // if zero, critical
	Weight    int      `yaml:"weight" json:"weight,omitempty"`       // of each tenant. If zero, 1
	Partition int      `yaml:"partition" json:"partition,omitempty"` // of the guards', from 1. If zero, none
	Units     int      `yaml:"units" json:"units,omitempty"`         // that a request takes of a limit. If zero, 1
	Mix       []Share  `yaml:"mix" json:"mix,omitempty"`             // of classes. If empty, all are of the class ""
}

// Burst compresses the arrivals of an open loop: all arrivals of each period Every come
// in its first For. The mean rate does not change.
type Burst struct {
	Every time.Duration `yaml:"every" json:"every"`
	For   time.Duration `yaml:"for" json:"for"` // in (0, Every]
}

// Retry lets a client repeat failed attempts, after a random time below Backoff·2ⁿ (full
// jitter).
type Retry struct {
	Attempts   int           `yaml:"attempts" json:"attempts"`       // at most, the first included. If zero, 1
	Backoff    time.Duration `yaml:"backoff" json:"backoff"`         // if zero, at once
	MaxBackoff time.Duration `yaml:"max_backoff" json:"max_backoff"` // if zero, unbounded
	// Budget bounds the retries of the whole client. If nil, there is no bound.
	Budget *adaptive.BudgetConfig `yaml:"budget" json:"budget,omitempty"`
}

// A Share of a client's calls is of a class.
type Share struct {
	Class string  `yaml:"class" json:"class"`
	Share float64 `yaml:"share" json:"share"` // >= 0, beside the others
}
