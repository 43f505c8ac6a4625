// SPDX-FileCopyrightText: The Tutti Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
	// watchdogSlack is how long after its lease has run out a process may believe that it leads before it is restarted.
	watchdogSlack = 20 * time.Second
)

func newWatchdog() *leaderelection.HealthzAdaptor {
	return leaderelection.NewLeaderHealthzAdaptor(watchdogSlack)
}

func newLock(config *rest.Config, o *options) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this process for the lease: %w", err)
	}
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.leaseNamespace, o.leaseName, identity, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("preparing the lease: %w", err)
	}
	return lock, nil
}

// lead runs work while this process holds the lease. When ctx is done, the lease is given back as soon as work has ended and not
// before: the next leader must not meet requests of this one. Losing the lease is an error, and the process must end with it, since
// work may still be under way.
func lead(ctx context.Context, lock resourcelock.Interface, watchdog *leaderelection.HealthzAdaptor, work func(context.Context)) error {
	holding, giveBack := context.WithCancel(context.WithoutCancel(ctx))
	defer giveBack()
	var leading atomic.Bool
	defer context.AfterFunc(ctx, func() {
		if !leading.Load() {
			giveBack()
		}
	})()

	ended := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		Name:            lock.Describe(),
		LeaseDuration:   leaseDuration,
		RenewDeadline:   renewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		WatchDog:        watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leased context.Context) {
				leading.Store(true)
				working, stop := context.WithCancel(ctx)
				defer stop()
				defer context.AfterFunc(leased, stop)()
				work(working)
				close(ended)
				giveBack()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the election: %w", err)
	}
	elector.Run(holding)
	if holding.Err() == nil {
		return errors.New("the lease was lost")
	}
	if leading.Load() {
		<-ended
	}
	return nil
}
