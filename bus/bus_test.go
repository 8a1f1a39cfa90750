package bus_test

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/bus"
)

func TestWithoutPasswords(t *testing.T) {
	t.Parallel()
	for urls, want := range map[string]string{
		"":                             "",
		"nats://h:1":                   "nats://h:1",
		"h1:1,h2":                      "h1:1,h2",
		"nats://me:secret@h":           "nats://xxxxx@h",
		"tls://secret@h:1,nats://h2":   "tls://xxxxx@h:1,nats://h2",
		"me:secret@h":                  "xxxxx@h",
		"nats://me:a,secret@h":         "nats://xxxxx,xxxxx@h",
		"nats://me:secret,1,2@h,g":     "nats://xxxxx,xxxxx,xxxxx@h,g",
		"nats://me:se@cret@h":          "nats://xxxxx@h",
		"nats://h1,nats://u:secret@h2": "nats://h1,nats://xxxxx@h2",
		"nats://me:a/secret@h":         "nats://xxxxx@h",
	} {
		if got := bus.WithoutPasswords(urls); got != want || strings.Contains(got, "secret") {
			t.Errorf("%s: got %s, want %s", urls, got, want)
		}
	}
}
