// Migrate copies rows from one database to another at a pace that leaves room
// for other clients: 500 rows a second.
//
//	go run -C examples ./migrate
//
// The size of a batch is known only once it is read, so the program pays for a
// full batch beforehand, and settles afterwards.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"time"

	"github.com/weir-go/weir/rate"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := migrate(ctx, os.Stdout, &table{rows: 2500}); err != nil {
		log.Fatal(err)
	}
}

const (
	pace  = 500 // rows a second
	batch = 100 // rows, at most
)

// migrate copies all rows of a table, and tells how it goes.
func migrate(ctx context.Context, out io.Writer, from *table) error {
	lim := rate.NewLimiter(pace, batch)
	progress := rate.Sometimes{Interval: time.Second}
	began := time.Now()
	copied := 0
	for {
		permit, err := lim.Acquire(ctx, batch)
		if err != nil {
			return fmt.Errorf("stopped after %d rows: %w", copied, err)
		}
		n, err := from.copyBatch(batch)
		permit.Use(n) // what was too much goes to the next batch
		copied += n
		progress.Do(func() { fmt.Fprintf(out, "%5.1fs  %5d rows\n", time.Since(began).Seconds(), copied) })
		if errors.Is(err, io.EOF) {
			break
		}
	}
	took := time.Since(began).Seconds()
	fmt.Fprintf(out, "%5.1fs  %5d rows, %.0f a second\n", took, copied, float64(copied)/took)
	return nil
}

// A table stands for the databases.
type table struct{ rows int }

// copyBatch copies up to n rows; some batches have gaps. It returns io.EOF
// with the last.
func (t *table) copyBatch(n int) (int, error) {
	time.Sleep(10 * time.Millisecond) // the work
	n = min(n-rand.IntN(n/2), t.rows)
	if t.rows -= n; t.rows == 0 {
		return n, io.EOF
	}
	return n, nil
}
