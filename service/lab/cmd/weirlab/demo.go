package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/httpserve"
	"github.com/weir-go/weir/service/internal/terminal"
	"github.com/weir-go/weir/service/lab/internal/demo"
	"github.com/weir-go/weir/service/lab/internal/web"
)

type demoCmd struct {
	Listen string   `default:"127.0.0.1:7070" placeholder:"ADDR" help:"Address of the page (${default})."`
	NoOpen bool     `help:"Only print the address of the page. Without it, the page opens in the browser, if the output is a terminal of a desktop."`
	NoTour bool     `help:"Begin with the first experiment. Without it, the page begins with the tour, which a change of a setting ends."`
	Open   bool     `default:"true" hidden:"" help:"--open=false is --no-open."`
	Tour   bool     `default:"true" hidden:"" help:"--tour=false is --no-tour."`
	Speed  *float64 `least:"0.1" most:"50" placeholder:"X" help:"Run X times faster: divide all times and multiply all rates by X. The page shows the original units (5, with which the tour lasts half a minute; with --headless 1)."`

	Headless bool          `group:"headless" help:"Run the five experiments side by side and print their results, without a page."`
	Duration time.Duration `default:"60s" placeholder:"TIME" group:"headless" help:"With --headless: duration of each experiment, in its original units (${default})."`
	JSON     bool          `name:"json" needs:"headless" group:"headless" help:"With --headless: print the results as JSON."`
	Out      string        `needs:"headless" placeholder:"DIR" group:"headless" help:"With --headless: write a picture of each experiment into this directory."`
	Format   string        `default:"svg" enum:"svg,png" placeholder:"KIND" group:"headless" help:"Format of the pictures: svg or png (${default})."`
}

// demoDetail tells what to expect.
const demoDetail = `weirlab demo runs an origin (7 workers), a proxy and a client (5 requests a second) in this process, over real HTTP, and shows them on a page.

The tour tells a story in half a minute: normal operation; overload, because a new release of the origin takes 2 s per request instead of 1 s; collapse of goodput, because the origin answers after the clients have left; the proxy is turned on, with a limit that finds itself; recovery to the bound of Little's law, 7 workers / 2 s = 3.5 requests a second.

Afterwards, choose one of the five experiments of marselester/capacity on the page, or change the settings. docs/capacity.md has their results and pictures.`

// Run shows the page until ctx ends, or runs headless.
func (c *demoCmd) Run(ctx context.Context, std cli.Streams) error {
	switch {
	case c.Duration < 20*time.Second || c.Duration > 24*time.Hour:
		return cli.Usagef("--duration=%v: must be in [20s, 24h]: the origin needs time to collapse", c.Duration)
	case c.Headless:
		return c.headless(ctx, std)
	}
	return c.page(ctx, std)
}

func (c *demoCmd) page(ctx context.Context, std cli.Streams) error {
	ln, err := cli.Listen("--listen", c.Listen)
	if err != nil {
		return err
	}
	live, err := demo.NewLive(c.speed(demo.TourSpeed))
	if err != nil {
		return err
	}
	defer live.Close()
	if c.Tour && !c.NoTour {
		live.AwaitViewer()
	}
	mux := http.NewServeMux()
	mux.Handle("/api/", live.Handler())
	mux.Handle("/", web.Handler())

	url := "http://" + ln.Addr().String() + "/"
	fmt.Fprintf(std.Out, "weirlab demo: open %s (Ctrl-C ends it)\n", url)
	if c.Open && !c.NoOpen && terminal.Is(std.Out) {
		browse(url)
	}
	srv := httpserve.New(mux, slog.New(slog.NewTextHandler(std.Err, nil)))
	srv.RegisterOnShutdown(live.Dismiss)
	return httpserve.Serve(ctx, srv, ln, 2*time.Second, nil)
}

// browse asks the desktop to open a page, if there is one. The user has its address in any case.
func browse(url string) {
	args := opener(runtime.GOOS, os.Getenv)
	if args == nil {
		return
	}
	cmd := exec.Command(args[0], append(args[1:], url)...) // its output goes nowhere
	if cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}

// opener returns the command that opens a page on the desktop of a system; nil if there is no desktop, or the user
// is elsewhere.
func opener(system string, getenv func(string) string) []string {
	if getenv("SSH_CONNECTION") != "" || getenv("SSH_TTY") != "" {
		return nil
	}
	switch system {
	case "darwin":
		return []string{"open"}
	case "windows":
		return []string{"rundll32", "url.dll,FileProtocolHandler"}
	}
	if getenv("DISPLAY") == "" && getenv("WAYLAND_DISPLAY") == "" {
		return nil
	}
	return []string{"xdg-open"}
}

// speed returns --speed, or a default.
func (c *demoCmd) speed(otherwise float64) float64 {
	if c.Speed == nil {
		return otherwise
	}
	return *c.Speed
}

func (c *demoCmd) headless(ctx context.Context, std cli.Streams) error {
	if c.Out != "" { // fail before the measurement rather than after it
		if err := os.MkdirAll(c.Out, 0o777); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	speed := c.speed(1)
	real := time.Duration(float64(c.Duration) / speed)
	fmt.Fprintf(std.Err, "five experiments over real HTTP, side by side: %v\n", real.Round(time.Second))
	stop := terminal.Progress(std.Err, func(elapsed time.Duration) string {
		return fmt.Sprintf("%v left", max(real-elapsed, 0).Round(time.Second))
	})
	report, err := demo.RunAll(ctx, speed, c.Duration)
	stop()
	switch {
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted: there are no results")
	case err != nil:
		return err
	case c.JSON:
		err = cli.PrintJSON(std.Out, report)
	default:
		err = report.Table(std.Out)
	}
	if err != nil || c.Out == "" {
		return err
	}
	for _, e := range report.Experiments {
		draw := func(w io.Writer) error { return e.Draw(w, c.Format) }
		if err := writeFile(std.Err, c.Out, fmt.Sprintf("capacity-%s.%s", e.Name, c.Format), draw); err != nil {
			return err
		}
	}
	return nil
}
