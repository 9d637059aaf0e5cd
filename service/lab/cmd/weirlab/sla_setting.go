package main

import (
	"cmp"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/settings"
	"github.com/weir-go/weir/service/lab/internal/dist"
	"github.com/weir-go/weir/service/lab/internal/sla"
)

// slaSetting are the flags for the upstream, the tuned limits and the agreement.
type slaSetting struct {
	Mean         *time.Duration `placeholder:"TIME" group:"setting" help:"Mean time to process a call; with --distribution half-normal the least time (23ms; with --article 20ms)."`
	Deviation    *time.Duration `placeholder:"TIME" group:"setting" help:"Standard deviation of that time; with half-normal, of the normal variable (2.99ms; with --article 5ms)."`
	Distribution string         `enum:",constant,normal,half-normal,exponential" default:"" placeholder:"KIND" group:"setting" help:"Distribution of that time: constant, normal, exponential, or half-normal, which is --mean plus the absolute value of a normal variable, as in the article (normal; with --article half-normal)."`
	Concurrency  *int           `placeholder:"N" group:"setting" help:"Calls processed at once (10)."`
	CallTimeout  *time.Duration `placeholder:"TIME" group:"setting" help:"Time after which the service gives up a call (500ms)."`

	Rate  *float64       `placeholder:"RPS" group:"tuned" help:"Requests per second of the tuned ones (425)."`
	Burst *int           `placeholder:"N" group:"tuned" help:"Burst of the tuned ones (10)."`
	Wait  *time.Duration `placeholder:"TIME" group:"tuned" help:"Longest wait for a token (75ms)."`

	AgreedRate    *float64        `placeholder:"RPS" group:"agreement" help:"Requests per second that the service has to bear (425)."`
	AgreedP95     *time.Duration  `name:"agreed-p95" env:"WEIR_AGREED_P95" placeholder:"TIME" group:"agreement" help:"P95 of the answers with success (275ms)."`
	AgreedSuccess *settings.Share `placeholder:"SHARE" group:"agreement" help:"Share of the requests that succeed (99.99%)."`
}

// set overrides a parameter if its flag is given.
func set[T any](parameter *T, flag *T) {
	if flag != nil {
		*parameter = *flag
	}
}

// apply sets a parameter for each flag that is given.
func (f slaSetting) apply(cfg *sla.Config) error {
	s := &cfg.Setting
	set(&s.Concurrency, f.Concurrency)
	set(&s.Timeout, f.CallTimeout)
	set(&s.Rate, f.Rate)
	set(&s.Burst, f.Burst)
	set(&s.Wait, f.Wait)
	set(&cfg.Agreed.Rate, f.AgreedRate)
	set(&cfg.Agreed.P95, f.AgreedP95)
	set(&cfg.Agreed.Success, (*float64)(f.AgreedSuccess))
	return f.applyWork(&s.Work)
}

// applyWork sets the time to process a call.
func (f slaSetting) applyWork(work *dist.ServiceTime) error {
	kind := cmp.Or(f.Distribution, work.Name())
	mean, deviation := work.Mean, time.Duration(work.Spread()*float64(work.Mean))
	if kind == "half-normal" { // of the article
		mean, deviation = 20*time.Millisecond, 5*time.Millisecond
	}
	if f.Deviation == nil && (kind == "constant" || kind == "exponential") {
		deviation = 0
	}
	set(&mean, f.Mean)
	set(&deviation, f.Deviation)
	switch {
	case mean <= 0 || mean > dist.MaxMean:
		return cli.Usagef("--mean=%v: must be in (0s, %v]", mean, dist.MaxMean)
	case deviation < 0 || deviation > dist.MaxMean:
		return cli.Usagef("--deviation=%v: must be in [0s, %v]", deviation, dist.MaxMean)
	case kind == "constant" || kind == "exponential":
		if deviation != 0 {
			return cli.Usagef("--deviation=%v: the distribution %s has none to set", deviation, kind)
		}
		*work = dist.ServiceTime{Mean: mean, Distribution: kind}
	case deviation == 0:
		*work = dist.ServiceTime{Mean: mean}
	case kind == "half-normal":
		*work = dist.HalfNormal(mean, deviation)
	default:
		*work = dist.ServiceTime{Mean: mean, Distribution: kind, CV: deviation.Seconds() / mean.Seconds()}
	}
	return nil
}
