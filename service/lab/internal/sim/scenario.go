package sim

import (
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/adaptive"
	"github.com/weir-go/weir/internal/gate"
	"github.com/weir-go/weir/service/lab/internal/dist"
)

// A Scenario has clients, and the layers that their requests go through. The clients
// call the first layer. The YAML files under scenarios are Scenarios.
type Scenario struct {
	Name     string        `yaml:"name" example:"One service" required:"true" help:"Names the scenario in tables and plots."`
	Duration time.Duration `yaml:"duration" example:"5m" required:"true" help:"Virtual time of a run, > 0."`
	Warmup   time.Duration `yaml:"warmup" default:"0s" example:"30s" help:"The beginning, which is not measured; shorter than the duration."`
	Step     time.Duration `yaml:"step" default:"a 200th of the duration" example:"1s" help:"Time between the points of a plot."`
	Seed     uint64        `yaml:"seed" default:"0" example:"7" help:"Seed of the random numbers. The same file and seed give the same results."`
	Layers   []Layer       `yaml:"layers" required:"true" help:"The services that a request goes through, in their order: 1 to 16. The clients call the first one, and each calls the next."`
	Clients  []Client      `yaml:"clients" required:"true" help:"The populations that send requests: 1 to 1000."`
}

// A Layer is a station with workers, and the guard in front of it, if any. A
// request is admitted by the guard, waits for a worker, works, calls the next
// layer while it holds its worker, and is answered.
type Layer struct {
	Name    string `yaml:"name" default:"its number" example:"database" help:"Names the layer in tables, plots and variants."`
	Guard   *Guard `yaml:"guard" default:"none: all requests are admitted" example:"{limit: auto, queue: 1000, max_wait: 500ms}" help:"The limiter in front of the layer."`
	Workers int    `yaml:"workers" max:"1000000" zero:"as many as come" default:"as many as come" example:"10" help:"Requests that it processes at once."`
	Queue   *int   `yaml:"queue" max:"inf" default:"no bound" example:"100" help:"Requests that may wait for a worker, after the guard; further ones are refused."`
	Sharing bool   `yaml:"sharing" default:"false" example:"true" help:"All requests work at once, and share the workers as threads share processors: each has the speed workers/N if there are N > workers. The queue has no effect then."`

	ServiceTime dist.ServiceTime `yaml:"service_time" default:"0s" example:"{mean: 50ms, distribution: exponential}" help:"Time of its own work for a request, without the calls of the next layer."`
	Classes     map[string]Class `yaml:"classes" default:"one class" example:"{search: 200ms}" help:"The work of classes of requests, by their names, instead of the service time. The mix of a client says which classes it sends."`
	Contention  Contention       `yaml:"contention" default:"not at all" example:"{sigma: 0.01, kappa: 0.0001}" help:"How much work slows down while other workers are busy (the Universal Scalability Law)."`
	Pause       Pause            `yaml:"pause" default:"none" example:"{first: 30s, every: 10s, for: 200ms}" help:"Stops all work for a while, as a garbage collection does."`

	// Faults are requests that end for reasons that are not load. They are drawn when a request arrives at
	// the station. A faulty request waits for no worker and holds none.
	FailureRate    float64          `yaml:"failure_rate" max:"1" default:"0" example:"0.01" help:"Share of the requests that fail with an error that is not a sign of overload."`
	RefuseRate     float64          `yaml:"refuse_rate" max:"1" default:"0" example:"0.2" help:"Share of the requests that are refused as if it were overloaded."`
	HangRate       float64          `yaml:"hang_rate" max:"1" default:"0" example:"0.001" help:"Share of the requests that get no answer. With the other two rates, at most 1."`
	FailAfter      dist.ServiceTime `yaml:"fail_after" default:"0s" example:"10ms" help:"Time until a failure."`
	RefuseAfter    dist.ServiceTime `yaml:"refuse_after" default:"0s" example:"1ms" help:"Time until a refusal."`
	HangFor        time.Duration    `yaml:"hang_for" default:"until its caller leaves, at most 1m" example:"30s" help:"How long a request hangs, whether its caller has left or not."`
	FailWorks      bool             `yaml:"fail_works" default:"false" example:"true" help:"A request that fails waits for a worker, and holds it for fail_after."`
	Flap           Flap             `yaml:"flap" default:"always" example:"{first: 1m, every: 20s, for: 5s}" help:"Faults occur in periods only."`
	FailingClasses []string         `yaml:"failing_classes" default:"all classes" example:"[search]" help:"The classes of requests that have faults."`
	Pods           int              `yaml:"pods" max:"1000000" default:"0: faults occur everywhere" example:"10" help:"Pods that requests are dealt to at random; faults occur in bad_pods of them, and the others share the workers."`
	BadPods        int              `yaml:"bad_pods" max:"1000000" default:"0" example:"1" help:"Pods with faults, at most pods."`

	CancelAbandoned bool `yaml:"cancel_abandoned" default:"false" example:"true" help:"Work ends when its caller has left. In most real services, it goes on."`

	Calls    int           `yaml:"calls" max:"100" default:"1" example:"3" help:"Calls of the next layer that each request makes, one after the other. The request keeps its worker meanwhile."`
	Attempts int           `yaml:"attempts" max:"100" default:"1" example:"2" help:"Attempts of each such call, at once after a failure."`
	Timeout  time.Duration `yaml:"timeout" default:"for ever" example:"2s" help:"How long a caller waits for the answer of this layer."`
	Changes  []Change      `yaml:"changes" help:"What changes during the run, in the order of time: at most 1000."`
}

// A Guard is the gate in front of a station.
type Guard struct {
	Limit   Limit         `yaml:"limit" default:"must be given, unless there is a rate" example:"auto" help:"The limit of requests in flight, or the algorithm that finds it."`
	Queue   int           `yaml:"queue" max:"inf" default:"0" example:"1000" help:"Requests that may wait for the guard."`
	Depth   float64       `yaml:"depth" max:"inf" default:"only queue counts" example:"2" help:"Requests that may wait for each unit of the limit. The smaller of queue and depth counts."`
	Brief   time.Duration `yaml:"brief" default:"0s" example:"20ms" help:"A wait that depth never forbids."`
	MaxWait time.Duration `yaml:"max_wait" default:"no bound" example:"500ms" help:"How long a request may wait for the guard."`

	Discipline inflight.Discipline `yaml:"discipline" enum:"fifo,codel,codel_2012,adaptive_lifo" default:"fifo" example:"adaptive_lifo" help:"Order of the waiting requests, and which of them are refused."`
	Target     time.Duration       `yaml:"target" default:"5ms" example:"50ms" help:"Wait that codel and adaptive_lifo tolerate."`
	Interval   time.Duration       `yaml:"interval" default:"100ms" example:"1s" help:"How long codel and adaptive_lifo tolerate a longer wait."`
	FairQueues int                 `yaml:"fair_queues" default:"0: no fairness between tenants" example:"16" help:"Queues that tenants are dealt to, which take turns."`
	Aging      time.Duration       `yaml:"aging" default:"never" example:"1s" help:"A waiting request rises by one priority after each such time."`
	Partitions []float64           `yaml:"partitions" default:"none" example:"[0.5, 0.25]" help:"Shares of the limit that are guaranteed to partitions 1, 2 and so on; see the partition of a client."`

	Rate *Rate `yaml:"rate" default:"none" example:"{per_second: 100, burst: 10}" help:"A limit of the rate, instead of requests in flight. Of the other fields of the guard, only instances and library count then."`

	Instances Instances `yaml:"instances" default:"1" example:"8" help:"Replicas of the guard, each with its own limit and queue."`

	Stalls  Stalls `yaml:"stalls" default:"none" example:"{every: 250ms, for: 50ms, random: true}" help:"Stops the guard's process now and then, as a busy machine does. It decides nothing during a stall. Work goes on; the guard sees the end of work, and callers that leave, at the end of the stall. Each instance has its own stalls. Not with a rate."`
	Library bool   `yaml:"library" default:"false" example:"true" help:"The guard sees its caller leave, and not the end of the work, as a library in a program does. A proxy sees the end."`
	Blind   bool   `yaml:"blind" default:"false" example:"true" help:"Hides the deadlines of requests from the guard."`

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
	Sigma float64 `yaml:"sigma" max:"1e6" default:"0" example:"0.01" help:"Waiting for each other: the factor grows by sigma with each busy worker."`
	Kappa float64 `yaml:"kappa" max:"1e6" default:"0" example:"0.0001" help:"Crosstalk: the factor grows with the square of the busy workers."`
}

// Pause stops all work of a station, like a garbage collection.
type Pause struct {
	First time.Duration `yaml:"first" default:"0s" example:"30s" help:"Instant of the first pause."`
	Every time.Duration `yaml:"every" default:"one pause only" example:"10s" help:"Time from one pause to the next; longer than for."`
	For   time.Duration `yaml:"for" default:"0s: no pause" example:"200ms" help:"Length of a pause."`
}

// A Class is the work of one class of requests.
type Class struct {
	dist.ServiceTime `yaml:",inline"`
	Stream           bool     `yaml:"stream" default:"false" example:"true" help:"A request lasts for its service time without a worker, as an event stream or a download does. Nothing slows it down."`
	Calls            *int     `yaml:"calls" max:"100" default:"calls of the layer" example:"3" help:"Calls of the next layer that a request makes."`
	CallsOf          []string `yaml:"calls_of" default:"the next layer" example:"[database]" help:"Layers below that a request calls, one after the other, each by its name, instead of calls of the next layer. A layer that is called by its name calls none, unless its calls say so."`
}

// A Change of a station applies to work that begins later. Nil fields do not change
// anything.
type Change struct {
	At       time.Duration `yaml:"at" default:"0s" example:"1m" help:"Instant of the change. It applies to work that begins later."`
	Slowdown *float64      `yaml:"slowdown" max:"1e6" default:"no change" example:"4" help:"Factor of the service times, > 0; 1 is as in the file."`
	Workers  *int          `yaml:"workers" max:"1000000" default:"no change" example:"5" help:"Workers from now on, at least 1."`
	Down     *bool         `yaml:"down" default:"no change" example:"true" help:"An outage: all requests in the layer, and all that arrive, are refused after refuse_after. false ends it."`

	FailureRate *float64          `yaml:"failure_rate" max:"1" default:"no change" example:"0.01" help:"As in the layer."`
	RefuseRate  *float64          `yaml:"refuse_rate" max:"1" default:"no change" example:"0.2" help:"As in the layer."`
	HangRate    *float64          `yaml:"hang_rate" max:"1" default:"no change" example:"0.001" help:"As in the layer."`
	FailAfter   *dist.ServiceTime `yaml:"fail_after" default:"no change" example:"10ms" help:"As in the layer."`
	RefuseAfter *dist.ServiceTime `yaml:"refuse_after" default:"no change" example:"1ms" help:"As in the layer."`
	HangFor     *time.Duration    `yaml:"hang_for" default:"no change" example:"30s" help:"As in the layer."`
	BadPods     *int              `yaml:"bad_pods" max:"1000000" default:"no change" example:"1" help:"As in the layer."`
}

// A Client is a population that makes calls. A call is one attempt to get an answer or,
// with retries, several.
type Client struct {
	Name string `yaml:"name" default:"its number" example:"users" help:"Names the clients in tables, plots and variants."`

	Rate string `yaml:"rate" default:"none" example:"'5..50@30s,50'" help:"Requests a second of an open loop, which arrive regardless of earlier ones. 5..50@30s is a ramp, 5@10s,20@30s are steps. A client has a rate, a recording, or users."`
	// Recorded, if not empty, are the calls of an open loop, in the order of their instants.
	Recorded  []Arrival `yaml:"-"`
	Recording string    `yaml:"recording" default:"none" example:"run.rec" help:"A recording (docs/recording.md): calls at the instants of its requests, of their classes and with their deadlines, instead of a rate. The path counts from the directory of the scenario file."`

	Arrivals string `yaml:"arrivals" enum:"poisson,even" default:"poisson" example:"even" help:"Arrivals of an open loop: at random, or evenly spaced."`
	Burst    Burst  `yaml:"burst" default:"none" example:"{every: 10s, for: 1s}" help:"Compresses the arrivals of an open loop. The mean rate stays."`

	Users int              `yaml:"users" max:"1000000" default:"0: an open loop" example:"200" help:"Users of a closed loop: each thinks, calls, and waits for the answer."`
	Think dist.ServiceTime `yaml:"think" default:"0s" example:"{mean: 1s, distribution: exponential}" help:"Time that a user thinks before a call."`
	Pause time.Duration    `yaml:"pause" default:"1ms" example:"100ms" help:"The least time between a failed call of a user and the next one."`

	Timeout   time.Duration    `yaml:"timeout" default:"for ever" example:"1s" help:"How long an attempt waits for its answer."`
	TimeoutCV float64          `yaml:"timeout_cv" max:"10" default:"0: all wait alike" example:"0.5" help:"Coefficient of variation of the timeout, which is then the mean of a lognormal distribution: callers differ in how long they wait, each for all its attempts."`
	Deadline  time.Duration    `yaml:"deadline" default:"for ever" example:"3s" help:"How long a call with all its attempts lasts, from its intended start."`
	Retry     Retry            `yaml:"retry" default:"one attempt" example:"{attempts: 3, backoff: 100ms}" help:"Repeats failed attempts."`
	Throttle  *adaptive.Config `yaml:"throttle" default:"none" example:"{k: 2}" help:"Holds attempts back after too many have been rejected."`

	Tenants   int      `yaml:"tenants" max:"1000" default:"1" example:"3" help:"Tenants that the calls come from, at random."`
	Priority  Priority `yaml:"priority" enum:"sheddable,sheddable_plus,critical,critical_plus" default:"critical" example:"sheddable" help:"Priority of the calls. Guards refuse the lowest first."`
	Weight    int      `yaml:"weight" max:"1000000" default:"1" example:"2" help:"Weight of each tenant in fair queues."`
	Partition int      `yaml:"partition" max:"1000000" default:"0: none" example:"1" help:"Partition of guards that the calls belong to, from 1."`
	Units     int      `yaml:"units" max:"1000000" default:"1" example:"5" help:"Units that a request takes of a limit."`
	Mix       []Share  `yaml:"mix" help:"Classes of the calls. Without it, all calls have the service time of each layer."`
}

// An Arrival is a call of which a recording has the instant.
type Arrival struct {
	At       time.Duration
	Class    string        // no layer needs a service time for it
	Late     time.Duration // how long before At it was due: latency counts from then
	Patience time.Duration // how long an attempt waits for its answer; 0: as the Timeout of the client
	Work     time.Duration // its own work at the first layer; 0: drawn from the service time
	Fails    bool          // it fails after that work
}

// Burst compresses the arrivals of an open loop: all arrivals of each period Every come
// in its first For. The mean rate does not change.
type Burst struct {
	Every time.Duration `yaml:"every" required:"true" example:"10s" help:"Period."`
	For   time.Duration `yaml:"for" required:"true" example:"1s" help:"Part of each period in which all its arrivals come, > 0 and at most the period."`
}

// Retry lets a client repeat failed attempts, after a random time below Backoff·2ⁿ (full
// jitter).
type Retry struct {
	Attempts   int                    `yaml:"attempts" max:"100" default:"1" example:"3" help:"Attempts of a call at most, the first one included."`
	Backoff    time.Duration          `yaml:"backoff" default:"0s: at once" example:"100ms" help:"The wait before the n-th retry is random, and below backoff · 2ⁿ."`
	MaxBackoff time.Duration          `yaml:"max_backoff" default:"no bound" example:"5s" help:"The longest such wait."`
	Budget     *adaptive.BudgetConfig `yaml:"budget" default:"none" example:"{ratio: 0.1}" help:"Bounds the retries of the whole client."`
}

// A Share of a client's calls is of a class.
type Share struct {
	Class string  `yaml:"class" default:"the service time of each layer" example:"search" help:"A class of a layer."`
	Share float64 `yaml:"share" default:"0" example:"0.8" help:"Share of the calls, >= 0, in proportion to the other shares."`
}
