package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestMigrate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		began := time.Now()
		if err := migrate(t.Context(), &out, &table{rows: 50_000}); err != nil {
			t.Fatal(err)
		}
		// All but the first batch are paid for in time, to a batch.
		if took := time.Since(began).Seconds(); took < 99.5 || took > 100.5 {
			t.Errorf("50000 rows at 500 a second took %v s", took)
		}
		if !strings.Contains(out.String(), "50000 rows, 50") {
			t.Errorf("%s", out.String())
		}
	})
}

func TestMigrateStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		time.AfterFunc(5*time.Second, cancel)
		if err := migrate(ctx, io.Discard, &table{rows: 50_000}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
