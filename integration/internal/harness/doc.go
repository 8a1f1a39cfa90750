// Package harness has the shared parts of the integration tests: an embedded server, hosts, nodes, a model that plays
// a script, and plugins, tools and services for them.
//
//	func TestReply(t *testing.T) {
//		b := harness.Start(t, harness.Reply(harness.Text("hello")))
//		id := b.Open(api.CreateRequest{})
//		b.RunTurn(id, "t1", harness.Text("hi"))
//		harness.EqualLists(t, "messages", b.Messages(id), []string{"user hi", "assistant hello"})
//	}
//
// Each sibling folder has the tests of one subject, and a TestMain that calls [Main]. Code that only one folder uses
// is in that folder.
package harness
