package integration

import (
	"testing"

	"github.com/lash-go/lash/bus"
)

func TestRoleNode(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b, err := bus.Open(limited(t), d.config("node@acme"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
}
