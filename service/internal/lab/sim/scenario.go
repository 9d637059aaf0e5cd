package sim

import (
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/service/internal/lab/dist"
)

// A Scenario has clients, and the layers that their requests go through. The clients
// call the first layer. The YAML files under scenarios are Scenarios.
type Scenario struct {
	Name     string        `yaml:"name"`
	Duration time.Duration `yaml:"duration"` // of the run, > 0
	Warmup   time.Duration `yaml:"warmup"`   // the beginning, which is not measured; < Duration
	Step     time.Duration `yaml:"step"`     // of the series. If zero, a 200th of Duration
	Seed     uint64        `yaml:"seed"`     // of the random numbers
	Layers   []Layer       `yaml:"layers"`
	Clients  []Client      `yaml:"clients"`
}

// A Layer is a station with workers, and the guard in front of it, if any. A
// request is admitted by the guard, waits for a worker, works, calls the next
// layer while it holds its worker, and is answered.
type Layer struct {
	Name    string `yaml:"name"`
	Guard   *Guard `yaml:"guard"`                                        // if nil, all requests are admitted
	Workers int    `yaml:"workers" max:"1000000" zero:"as many as come"` // requests processed at once. If zero, unbounded
	Queue   *int   `yaml:"queue" max:"inf"`                              // requests that wait for a worker; further ones are refused. If nil, unbounded
	// Sharing lets all requests work at once, each at the speed Workers/N if there
	// are N > Workers: a shared processor. Queue has no effect then.
	Sharing bool `yaml:"sharing"`

	ServiceTime dist.ServiceTime `yaml:"service_time"` // of the layer's own work
	Classes     map[string]Class `yaml:"classes"`      // instead, for the classes named
	Contention  Contention       `yaml:"contention"`
	Pause       Pause            `yaml:"pause"`

	// Faults are requests that end for reasons that are not load. They are
	// drawn when a request arrives at the station. A faulty request waits for
	// no worker and holds none.
	FailureRate float64          `yaml:"failure_rate" max:"1"` // share that fails: an error that no guard takes for overload
	RefuseRate  float64          `yaml:"refuse_rate" max:"1"`  // share that is refused, as if overloaded
	HangRate    float64          `yaml:"hang_rate" max:"1"`    // share that gets no answer; with the other rates, at most 1
	FailAfter   dist.ServiceTime `yaml:"fail_after"`           // how long a failure takes. If zero, no time
	RefuseAfter dist.ServiceTime `yaml:"refuse_after"`         // how long a refusal takes. If zero, no time
	// HangFor is how long a request hangs, whether its caller has left or not.
	// If zero, it hangs until its caller leaves, but for at most a minute.
	HangFor time.Duration `yaml:"hang_for"`
	// FailWorks lets a request that fails wait for a worker, and hold it for
	// FailAfter.
	FailWorks bool `yaml:"fail_works"`
	Flap      Flap `yaml:"flap"` // when faults occur
	// FailingClasses are the classes with faults. If empty, all classes.
	FailingClasses []string `yaml:"failing_classes"`
	// Pods, if not zero, is the number of pods that requests are dealt to at
	// random. Faults occur in BadPods of them. The good pods share the Workers.
	Pods    int `yaml:"pods" max:"1000000"`
	BadPods int `yaml:"bad_pods" max:"1000000"` // <= Pods

	// CancelAbandoned ends work after its caller has left. If false, the work
	// goes on, as in most real services.
	CancelAbandoned bool `yaml:"cancel_abandoned"`

	Calls    int           `yaml:"calls" max:"100"`    // of the next layer, one after the other, by each request. If zero, 1
	Attempts int           `yaml:"attempts" max:"100"` // of each such call, at once after a failure. If zero, 1
	Timeout  time.Duration `yaml:"timeout"`            // how long a caller waits for this layer's answer. If zero, for ever
	Changes  []Change      `yaml:"changes"`            // in the order of time
}

// A Guard is the gate in front of a station.
type Guard struct {
	Limit   Limit         `yaml:"limit"`
	Queue   int           `yaml:"queue" max:"inf"` // how many wait for the guard. If zero, none
	Depth   float64       `yaml:"depth" max:"inf"` // and how many for each unit of the limit. If zero, only Queue counts
	Brief   time.Duration `yaml:"brief"`           // a wait that Depth always grants. If zero, none
	MaxWait time.Duration `yaml:"max_wait"`        // and how long. If zero, unbounded

	Discipline inflight.Discipline `yaml:"discipline"`  // fifo (also if empty), codel, codel_2012 or adaptive_lifo
	Target     time.Duration       `yaml:"target"`      // of codel and adaptive_lifo. If zero, 5 ms
	Interval   time.Duration       `yaml:"interval"`    // of both. If zero, 100 ms
	FairQueues int                 `yaml:"fair_queues"` // that tenants are dealt to. If zero, no fairness
	Aging      time.Duration       `yaml:"aging"`       // a waiter rises by a priority per Aging. If zero, never
	Partitions []float64           `yaml:"partitions"`  // shares of the limit that are guaranteed to partitions 1, 2, …

	// Rate, if not nil, makes the guard a limit on the rate. Of the other
	// fields, only Instances and Library count then.
	Rate *Rate `yaml:"rate"`

	// Instances are the replicas of the guard. If empty, it has one.
	Instances Instances `yaml:"instances"`
	// SplitRoutes gives dear classes an instance of their own, eight at most, as httplimit and
	// weir proxy do with routes that they find by the paths of requests (package routecost).
	// Instances must be empty.
	SplitRoutes bool `yaml:"split_routes"`

	// Library is a guard that sees its caller leave and not the end of the
	// work, as in a program. If false, it sees the end, as a proxy does.
	Library bool `yaml:"library"`
	// Blind hides the callers' deadlines from the guard.
	Blind bool `yaml:"blind"`

	// Other, if not nil, makes a Limiter for each instance.
	// Of the fields above, only Instances, Library and Blind count then.
	Other func() Limiter `yaml:"-"`
}

// Auto returns the guard of a service that is protected by
// inflight.New(inflight.Config{}).
func Auto() *Guard {
	return &Guard{
		Limit: Limit{Name: "auto"}, Queue: inflight.DefaultQueue, MaxWait: inflight.DefaultMaxWait,
		Discipline: inflight.DefaultDiscipline, Target: inflight.DefaultTarget, Interval: inflight.DefaultInterval,
	}
}

func (g *Guard) config() gate.Config {
	return gate.Config{
		Queue: g.Queue, Depth: g.Depth, MinWait: g.Brief, MaxWait: g.MaxWait,
		Discipline: gate.Discipline(g.Discipline), Target: g.Target, Interval: g.Interval,
		FairQueues: g.FairQueues, Aging: g.Aging, Partitions: g.Partitions,
	}
}

// Contention slows work down while other workers are busy (Gunther's Universal
// Scalability Law): service times are multiplied by 1 + Sigma·(N−1) + Kappa·N·(N−1) for
// N busy workers.
type Contention struct {
	Sigma float64 `yaml:"sigma" max:"1e6"`
	Kappa float64 `yaml:"kappa" max:"1e6"`
}

// Pause stops all work of a station, like a garbage collection.
type Pause struct {
	First time.Duration `yaml:"first"` // its instant
	Every time.Duration `yaml:"every"` // > For. If zero, once
	For   time.Duration `yaml:"for"`   // if zero, no pause
}

// A Class is the work of one class of requests.
type Class struct {
	dist.ServiceTime `yaml:",inline"`
	// Stream marks a request that lasts for its service time without a worker, such
	// as an event stream or a download. Nothing slows it down.
	Stream bool `yaml:"stream"`
	// Calls is how many calls of the next layer a request makes. If nil, as in Layer.
	Calls *int `yaml:"calls" max:"100"`
}

// A Change of a station applies to work that begins later. Nil fields do not change
// anything.
type Change struct {
	At       time.Duration `yaml:"at"`
	Slowdown *float64      `yaml:"slowdown" max:"1e6"`    // factor of the service times, > 0; 1 is as configured
	Workers  *int          `yaml:"workers" max:"1000000"` // >= 1
	// Down refuses all requests in the station, and all that arrive later, each after
	// RefuseAfter; false ends it.
	Down *bool `yaml:"down"`

	// Of the faults, as in Layer.
	FailureRate *float64          `yaml:"failure_rate" max:"1"`
	RefuseRate  *float64          `yaml:"refuse_rate" max:"1"`
	HangRate    *float64          `yaml:"hang_rate" max:"1"`
	FailAfter   *dist.ServiceTime `yaml:"fail_after"`
	RefuseAfter *dist.ServiceTime `yaml:"refuse_after"`
	HangFor     *time.Duration    `yaml:"hang_for"`
	BadPods     *int              `yaml:"bad_pods" max:"1000000"`
}

// A Client is a population that makes calls. A call is one attempt to get an answer or,
// with retries, several.
type Client struct {
	Name string `yaml:"name"`

	// Rate is the rate of an open loop, in the syntax of pace.Parse: calls arrive
	// regardless of earlier ones.
	Rate     string `yaml:"rate"`
	Arrivals string `yaml:"arrivals"` // poisson (also if empty) or even
	Burst    Burst  `yaml:"burst"`

	// Users is the number of users of a closed loop. Each thinks, calls, and waits for
	// the answer.
	Users int              `yaml:"users" max:"1000000"`
	Think dist.ServiceTime `yaml:"think"`
	// Pause is the least time between a failed call of a user and the next call. If
	// zero, 1 ms, because a refusal takes no time.
	Pause time.Duration `yaml:"pause"`

	Timeout time.Duration `yaml:"timeout"` // of an attempt. If zero, none
	// TimeoutCV, if not zero, makes Timeout the mean of a lognormal distribution with this
	// coefficient of variation: callers differ in how long they wait, each for all its attempts.
	TimeoutCV float64       `yaml:"timeout_cv" max:"10"`
	Deadline  time.Duration `yaml:"deadline"` // of a call, from its intended start. If zero, none
	Retry     Retry         `yaml:"retry"`
	// Throttle holds attempts back when too many have been rejected. If nil, it does
	// not.
	Throttle *adaptive.Config `yaml:"throttle"`

	Tenants   int      `yaml:"tenants" max:"1000"`      // that the calls come from, at random. If zero, 1
	Priority  Priority `yaml:"priority"`                // if zero, critical
	Weight    int      `yaml:"weight" max:"1000000"`    // of each tenant. If zero, 1
	Partition int      `yaml:"partition" max:"1000000"` // of the guards', from 1. If zero, none
	Units     int      `yaml:"units" max:"1000000"`     // that a request takes of a limit. If zero, 1
	Mix       []Share  `yaml:"mix"`                     // of classes. If empty, all are of the class ""
}

// Burst compresses the arrivals of an open loop: all arrivals of each period Every come
// in its first For. The mean rate does not change.
type Burst struct {
	Every time.Duration `yaml:"every"`
	For   time.Duration `yaml:"for"` // in (0, Every]
}

// Retry lets a client repeat failed attempts, after a random time below Backoff·2ⁿ (full
// jitter).
type Retry struct {
	Attempts   int           `yaml:"attempts" max:"100"` // at most, the first included. If zero, 1
	Backoff    time.Duration `yaml:"backoff"`            // if zero, at once
	MaxBackoff time.Duration `yaml:"max_backoff"`        // if zero, unbounded
	// Budget bounds the retries of the whole client. If nil, there is no bound.
	Budget *adaptive.BudgetConfig `yaml:"budget"`
}

// A Share of a client's calls is of a class.
type Share struct {
	Class string  `yaml:"class"`
	Share float64 `yaml:"share"` // >= 0, beside the others
}
