// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything, for training programs that link lockstep::lockstep.
#include "lockstep/comm.h"
#include "lockstep/tensor/collectives.h"
#include "lockstep/tensor/dtype.h"
