package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"runtime"
	"time"

	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/lab/demo"
	"github.com/weir-go/weir/service/internal/terminal"
	"github.com/weir-go/weir/service/internal/web"
)

type demoCmd struct {
	Listen string  `default:"127.0.0.1:7070" placeholder:"ADDR" help:"Address of the page (${default})."`
	Open   bool    `help:"Open the page in the browser."`
	Tour   bool    `default:"true" negatable:"" help:"Begin with a tour of half a minute, which ends when the user changes a setting. --no-tour skips it."`
	Speed  float64 `least:"0.1" most:"50" default:"1" placeholder:"X" help:"Run X times faster: divide all times and multiply all rates by X. The page shows the original units (${default})."`

	Headless bool          `help:"Run the five experiments side by side and print their results, without a page."`
	Duration time.Duration `default:"60s" placeholder:"TIME" help:"With --headless: duration of each experiment, in its original units (${default})."`
	JSON     bool          `name:"json" help:"With --headless: print the results as JSON."`
}

// Run shows the page until ctx ends, or runs headless.
func (c *demoCmd) Run(ctx context.Context, std streams) error {
	switch {
	case c.Duration < 20*time.Second || c.Duration > 24*time.Hour:
		return usagef("--duration=%v: must be in [20s, 24h]: the origin needs time to collapse", c.Duration)
	case c.JSON && !c.Headless:
		return usagef("--json needs --headless")
	case c.Headless:
		return c.headless(ctx, std)
	}
	return c.page(ctx, std)
}

func (c *demoCmd) page(ctx context.Context, std streams) error {
	ln, err := listen("--listen", c.Listen)
	if err != nil {
		return err
	}
	live, err := demo.NewLive(c.Speed)
	if err != nil {
		return err
	}
	defer live.Close()
	if c.Tour {
		live.Tour()
	}
	mux := http.NewServeMux()
	mux.Handle("/api/", live.Handler())
	mux.Handle("/", web.Handler())

	url := "http://" + ln.Addr().String() + "/"
	fmt.Fprintf(std.Out, "weir demo: open %s (Ctrl-C ends it)\n", url)
	if c.Open {
		if err := browse(url); err != nil {
			fmt.Fprintf(std.Err, "weir demo: cannot open a browser: %v\n", err)
		}
	}
	srv := httpserve.New(mux, slog.New(slog.NewTextHandler(std.Err, nil)))
	srv.RegisterOnShutdown(live.Dismiss)
	return httpserve.Serve(ctx, srv, ln, 2*time.Second, nil)
}

func browse(url string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.Command("open", url).Start()
	case "windows":
		return exec.Command("rundll32", "url.dll,FileProtocolHandler", url).Start()
	default:
		return exec.Command("xdg-open", url).Start()
	}
}

func (c *demoCmd) headless(ctx context.Context, std streams) error {
	real := time.Duration(float64(c.Duration) / c.Speed)
	fmt.Fprintf(std.Err, "five experiments over real HTTP, side by side: %v\n", real.Round(time.Second))
	stop := terminal.Progress(std.Err, func(elapsed time.Duration) string {
		return fmt.Sprintf("%v left", max(real-elapsed, 0).Round(time.Second))
	})
	report, err := demo.RunAll(ctx, c.Speed, c.Duration)
	stop()
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted: there are no results")
	case err != nil:
		return err
	case c.JSON:
		return printJSON(std.Out, report)
	}
	return report.Table(std.Out)
}
