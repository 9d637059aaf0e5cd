package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/weir-go/weir/service/internal/redisstore"
	"github.com/weir-go/weir/service/internal/terminal"
)

// checkStore says which store to check.
type checkStore struct {
	StoreURL    string `name:"store" env:"WEIR_STORE" placeholder:"URL" help:"Check that this Redis or Valkey is fit for weir serve --store, and that the rules can be shared there. Nothing is stored."`
	StorePrefix string `default:"weir:" placeholder:"TEXT" help:"The beginning of all keys in the store (${default})."`
}

// checkTimeout bounds the time that the check of a store takes.
const checkTimeout = 5 * time.Second

// open returns the store; nil if there is none.
func (c *checkStore) open() (*redisstore.Client, error) {
	if c.StoreURL == "" {
		return nil, nil
	}
	return openStore(c.StoreURL)
}

func (c *checkStore) check(ctx context.Context, store *redisstore.Client) *redisstore.Report {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return store.Check(ctx, c.StorePrefix)
}

// unfit returns an error if weir serve does not work with the store.
func unfit(r *redisstore.Report) error {
	if r == nil || r.Fit {
		return nil
	}
	return fmt.Errorf("the store %s is not fit", r.Address)
}

// printStore writes a report of a store as text.
func printStore(w io.Writer, r *redisstore.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", terminal.Escape(r.Address))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		what := f.What
		if f.Server != "" {
			what = f.Server + " " + what
		}
		text := terminal.Escape(f.Value)
		if f.Advice != "" {
			text += ": " + f.Advice
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\n", f.Level, what, text)
	}
	_ = table.Flush() // a strings.Builder has no errors
	_, err := io.WriteString(w, b.String())
	return err
}
