package search

import (
	"context"
	"runtime"
	"sync"
)

// startedAhead limits the results of [InOrder] that wait for an earlier one.
const startedAhead = 64

// InOrder calls work for the indexes below n, several at once, and done with each result, one at a time and in the order
// of the indexes. The first error of done ends it and cancels the work that runs.
func InOrder[R any](ctx context.Context, n int, work func(context.Context, int) (R, error), done func(R, error) error) error {
	type result struct {
		value R
		err   error
	}
	parent := ctx
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	queue := make(chan chan result, startedAhead)
	slots := make(chan struct{}, 2*runtime.GOMAXPROCS(0)) // half of them wait for a server
	wait.Go(func() {                                      // starts the work, in order
		defer close(queue)
		for i := range n {
			one := make(chan result, 1)
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			select {
			case queue <- one:
			case <-ctx.Done():
				return
			}
			wait.Go(func() { // ends with its work
				value, err := work(ctx, i)
				<-slots
				one <- result{value, err}
			})
		}
	})
	for one := range queue {
		r := <-one
		if err := done(r.value, r.err); err != nil {
			return err
		}
	}
	return context.Cause(parent)
}
