package external

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ackWait is the time after which JetStream gives a job to another worker by default.
const ackWait = 30 * time.Second

// BenchmarkDeadInstance measures the time from the death of an instance that has a repeatable call to the start of the
// call on another instance. Beside it the worker of a JetStream work queue dies with a job, which another worker fetches.
func BenchmarkDeadInstance(b *testing.B) {
	for name, signal := range map[string]os.Signal{"killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
		b.Run(name, func(b *testing.B) {
			m := measure(b)
			began, err := m.bus.Conn().SubscribeSync("began")
			check(b, err)
			var took, queue []time.Duration
			for b.Loop() {
				redelivered := make(chan error, 1)
				go func() {
					wait, err := redelivery(m)
					queue = append(queue, wait)
					redelivered <- err
				}()
				took = append(took, handOver(m, began, signal))
				check(b, <-redelivered)
			}
			b.ReportMetric(p50(took)/1000, "call-ms")
			b.ReportMetric(p50(queue)/1000, "queue-ms")
			b.ReportMetric(p50(took)/p50(queue), "ratio")
		})
	}
}

// handOver is the time from the end of the instance that has a call to the start of the call on another one.
func handOver(m *measured, began *nats.Subscription, signal os.Signal) time.Duration {
	m.Helper()
	programs := make(map[string]*os.Process)
	for range 2 {
		m.live++
		id := fmt.Sprint("i", m.live)
		programs[id] = m.program(id).Process
	}
	w := &workload{tool: "held", args: `{}`, calls: 1, replies: 1}
	ended, id := make(chan error, 1), m.session(w)
	go func() { ended <- m.turn(id) }()
	first, err := began.NextMsg(time.Minute)
	check(m.B, err)
	died := time.Now()
	check(m.B, programs[string(first.Data)].Signal(signal))
	second, err := began.NextMsg(time.Minute)
	took := time.Since(died)
	check(m.B, err)
	check(m.B, second.Respond(nil))
	check(m.B, <-ended)
	for _, p := range programs {
		check(m.B, p.Kill())
	}
	return took
}

// redelivery is the time from the end of a worker with a job to the job's delivery to another one.
func redelivery(m *measured) (time.Duration, error) {
	ctx := m.Context()
	js, err := jetstream.New(m.bus.Conn())
	if err != nil {
		return 0, err
	}
	s, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "jobs", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		return 0, err
	}
	if _, err = js.Publish(ctx, "jobs", nil); err != nil {
		return 0, err
	}
	c, err := s.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait})
	if err != nil {
		return 0, err
	}
	if _, err = c.Next(); err != nil { // and never acknowledged
		return 0, err
	}
	died := time.Now()
	again, err := c.Next(jetstream.FetchMaxWait(2 * ackWait))
	if err != nil {
		return 0, err
	}
	return time.Since(died), again.DoubleAck(ctx)
}
